#include "guest/init.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/modules.h"
#include "guest/network.h"
#include "guest/root_fs.h"

namespace space::guest {

namespace {

constexpr Millis stop_grace{300};
constexpr Millis stop_poll{5};
constexpr rlim_t open_files_soft = 65'536;
constexpr rlim_t open_files_hard = 1'048'576;

// The kernel gives process 1 no descriptors when the initramfs has no console device; the first
// files opened would then become standard output.
void open_console() {
  const int console = ::open("/dev/console", O_RDWR | O_NOCTTY);
  if (console < 0) return;
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::dup2(console, fd);
  if (console > 2) ::close(console);
}

void warn_if_failed(std::string_view event, const Result<void>& result) {
  if (!result) log::warn(event, {log::Field(result.error())});
}

void ensure_name_server() {
  struct stat status{};
  if (::stat("/etc/resolv.conf", &status) == 0 && status.st_size > 0) return;
  const auto file = open_fd("/etc/resolv.conf", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file) warn_if_failed("name server not set", write_all(file->get(), as_bytes("nameserver 10.77.0.1\n")));
}

// The kernel's defaults follow the memory and are too small for one recursive watch of a folder of packages.
void raise_watch_limits() {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> limits{
      {{"max_user_watches", "131072"}, {"max_user_instances", "1024"}, {"max_queued_events", "65536"}}};
  for (const auto& [name, value] : limits) {
    const auto file = open_fd(fmt::format("/proc/sys/fs/inotify/{}", name), O_WRONLY | O_CLOEXEC);
    if (file) warn_if_failed("watch limit not raised", write_all(file->get(), as_bytes(value)));
  }
}

// What is unwritten is what a disk snapshot has to wait for, and what a crash loses. The kernel's default, a
// tenth of the memory after half a minute, is a second of both; its writing goes into memory of the host.
void write_back_early() {
  const auto file = open_fd("/proc/sys/vm/dirty_background_bytes", O_WRONLY | O_CLOEXEC);
  if (file) warn_if_failed("write-back begins late", write_all(file->get(), as_bytes("1048576")));
}

}  // namespace

Result<void> start_machine() {
  ::umask(0022);
  SPACE_CHECK(mount_early());
  open_console();
  SPACE_CHECK(load_modules("/modules"));
  SPACE_CHECK(switch_to_disk());
  SPACE_CHECK(mount_late());
  warn_if_failed("no loopback", bring_up_loopback());
  warn_if_failed("no ethernet", bring_up_ethernet());
  ensure_name_server();
  raise_watch_limits();
  write_back_early();
  return {};
}

Result<void> protect_daemon() {
  SPACE_TRY(const Fd score, open_fd("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  SPACE_CHECK(write_all(score.get(), as_bytes("-1000")));
  const rlimit files{.rlim_cur = open_files_soft, .rlim_max = open_files_hard};
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return fail_errno(errno, "raise the limit of open files");
  return {};
}

void stop_machine(bool reboot, bool is_init, const std::function<bool()>& quiet) {
  if (is_init) {
    ::kill(-1, SIGTERM);
    for (const Deadline grace = Deadline::after(stop_grace); !grace.passed() && !quiet();)
      std::this_thread::sleep_for(stop_poll);
    ::kill(-1, SIGKILL);
  }
  ::sync();
  // Fails while files are open for writing; the flush above is what counts.
  if (is_init) ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  ::reboot(reboot ? RB_AUTOBOOT : RB_POWER_OFF);
  log::error("the machine does not stop", {{"errno", errno}});
}

}  // namespace space::guest
