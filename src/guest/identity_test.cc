// Who the guest is, on the real files: in mount and host name namespaces of a thread of its own.
#include "guest/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/fd.h"

namespace space::guest {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  return read_file(path, 4096).value_or("");
}

// /etc, /run and /var/lib are empty there.
void in_namespaces(const std::function<void()>& test) {
  ASSERT_EQ(::geteuid(), 0U) << "namespaces are root's";
  bool made = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0) return;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    for (const char* folder : {"/etc", "/run", "/var/lib"})
      if (::mount("tmpfs", folder, "tmpfs", 0, nullptr) != 0) return;
    made = true;
    test();
  }).join();
  ASSERT_TRUE(made) << "no namespaces here";
}

TEST(Identity, ACopyGetsNamesOfItsOwnAndTheSameSandboxKeepsThem) {
  in_namespaces([] {
    fs::create_directories("/var/lib/dbus");
    std::ofstream("/var/lib/dbus/machine-id") << "old";
    const std::string kernels_boot_id = content("/proc/sys/kernel/random/boot_id");
    auto news = take_identity("i1", "one");
    ASSERT_TRUE(news) << news.error().message;
    EXPECT_TRUE(news->memory && news->disk);
    const std::string machine = content("/etc/machine-id");
    const std::string boot = content("/proc/sys/kernel/random/boot_id");
    EXPECT_EQ(machine.size(), 33U);
    EXPECT_EQ(content("/var/lib/dbus/machine-id"), machine);
    EXPECT_EQ(boot.size(), kernels_boot_id.size());
    EXPECT_NE(boot, kernels_boot_id);
    EXPECT_THAT(content("/etc/hosts"), testing::HasSubstr("127.0.1.1 one\n"));

    news = take_identity("i1", "renamed");
    EXPECT_FALSE(news->memory || news->disk);
    EXPECT_EQ(content("/etc/hostname"), "renamed\n");
    EXPECT_EQ(content("/etc/machine-id"), machine);
    EXPECT_EQ(content("/proc/sys/kernel/random/boot_id"), boot);

    news = take_identity("i2", "two");
    EXPECT_TRUE(news->memory && news->disk);
    EXPECT_NE(content("/etc/machine-id"), machine);
    EXPECT_NE(content("/proc/sys/kernel/random/boot_id"), boot);

    const std::string second = content("/etc/machine-id");
    fs::remove_all("/run/space");  // as a boot does
    news = take_identity("i2", "two");
    EXPECT_TRUE(news->memory);
    EXPECT_FALSE(news->disk);
    EXPECT_EQ(content("/etc/machine-id"), second);
  });
}

TEST(Identity, TheGenerationIsReplacedUnderItsWatchers) {
  in_namespaces([] {
    ASSERT_TRUE(set_generation(7));
    const Fd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    const int file = ::inotify_add_watch(watch.get(), "/run/space/generation", IN_ATTRIB | IN_DELETE_SELF);
    const int folder = ::inotify_add_watch(watch.get(), "/run/space", IN_MOVED_TO);
    const auto seen = [&] {  // of the file, of the folder
      std::pair<bool, bool> result;
      alignas(inotify_event) char events[4096];
      const ssize_t count = ::read(watch.get(), events, sizeof events);
      for (ssize_t at = 0; at < count;) {
        const auto* event = reinterpret_cast<const inotify_event*>(events + at);
        if (event->wd == file) result.first = true;
        if (event->wd == folder && std::string_view(event->name) == "generation") result.second = true;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
      return result;
    };
    EXPECT_TRUE(set_generation(7));
    EXPECT_EQ(seen(), std::pair(false, false));
    EXPECT_TRUE(set_generation(8));
    EXPECT_EQ(seen(), std::pair(true, true));
    EXPECT_EQ(content("/run/space/generation"), "8\n");
    EXPECT_TRUE(next_generation());
    EXPECT_EQ(content("/run/space/generation"), "9\n");
  });
}

}  // namespace
}  // namespace space::guest
