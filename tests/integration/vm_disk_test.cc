// The guest's disk in a real virtual machine: it stands still and is whole while the host copies it, never
// for longer than was said, and two copies are compared inside a machine that exists for that alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "tests/integration/bare_vm.h"
#include "tests/integration/guest_exec.h"

namespace space {
namespace {

namespace fs = std::filesystem;
using SessionPtr = std::shared_ptr<H2Session>;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::int64_t number(std::string_view text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
Deadline boot_limit() {
  return Deadline::after(std::chrono::seconds(120));
}
Deadline soon() {
  return Deadline::after(std::chrono::seconds(90));
}

class VmDisk : public testing::Test {
 protected:
  using VmPtr = std::unique_ptr<BareVm>;
  VmDisk() {
    char path[] = "/tmp/space-vm-disk.XXXXXX";
    folder_ = ::mkdtemp(path);
  }
  ~VmDisk() override { fs::remove_all(folder_); }

  void run(std::function<Task<void>()> body) {
    bool ended = false;
    spawn(loop_.get_executor(), "test", [](std::function<Task<void>()> script, bool& done) -> Task<void> {
      co_await script();
      done = true;
    }(std::move(body), ended));
    loop_.run();
    loop_.restart();
    ASSERT_TRUE(ended);
  }
  static VmPtr boot(BareVm::Shape shape = {}) {
    const char* images = std::getenv("SPACE_TEST_IMAGES");
    if (images == nullptr) ADD_FAILURE() << "SPACE_TEST_IMAGES names a template's folder";
    if (images == nullptr) return nullptr;
    auto vm = BareVm::prepare(images, std::move(shape));
    EXPECT_TRUE(vm) << vm.error().message;
    if (!vm) return nullptr;
    const auto started = (*vm)->start();
    EXPECT_TRUE(started) << started.error().message;
    return started ? *std::move(vm) : nullptr;
  }
  static Task<SessionPtr> attach(BareVm& vm) {
    auto session = co_await vm.attach(boot_limit());
    EXPECT_TRUE(session) << session.error().message;
    co_return session.value_or(nullptr);
  }
  static Task<JsonObject> ask(SessionPtr session, std::string name, JsonObject message, int status = 200) {
    const auto answer =
        co_await session->call({.path = "/control/" + name, .body = to_text(message)}, soon());
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) co_return JsonObject();
    EXPECT_EQ(answer->status, status) << answer->body;
    co_return parse_json_object(answer->body, name).value_or(JsonObject());
  }
  static Task<std::string> shell(SessionPtr session, std::string script) {
    const auto ran = co_await run_in_guest(session, {"/bin/bash", "-c", script}, soon());
    EXPECT_TRUE(ran) << ran.error().message;
    co_return ran ? ran->output : "";
  }
  static Task<std::int64_t> size_of(SessionPtr session, std::string path) {
    co_return number(co_await shell(session, "stat -c %s " + path));
  }
  static Task<void> until_grown(SessionPtr session, std::string path, std::int64_t from) {
    for (int i = 0; i < 500 && co_await size_of(session, path) <= from; ++i) co_await sleep_for(Millis(20));
    EXPECT_GT(co_await size_of(session, path), from);
  }
  // Beside the test's other files.
  Task<std::string> copy_file(std::string from, std::string name) {
    const std::string copy = folder_ + "/" + name;
    const std::string command = fmt::format("cp --sparse=always {} {}", from, copy);
    EXPECT_EQ(co_await run_blocking([&] { return std::system(command.c_str()); }), 0);
    co_return copy;
  }
  // Frozen, copied, thawed.
  Task<std::string> copy_disk(BareVm& vm, SessionPtr session, std::string name) {
    EXPECT_EQ((co_await ask(session, "freeze_disk", {{"limit_ms", 10'000}})).at("frozen"), true);
    std::string copy = co_await copy_file(vm.folder() + "/disk.raw", std::move(name));
    EXPECT_EQ((co_await ask(session, "thaw_disk", {})).at("held"), true) << "the copy took too long";
    co_return copy;
  }
  // "+path type size" of those below `folder`.
  static std::vector<std::string> below(const JsonObject& diff, std::string_view folder) {
    std::vector<std::string> result;
    for (const Json& change : diff.at("changes").as_array()) {
      const std::string_view path = change.at("path").as_string();
      if (!path.starts_with(folder)) continue;
      const std::string_view kind = change.at("change").as_string();
      result.push_back(fmt::format("{}{} {} {}",
                                   kind == "added"     ? '+'
                                   : kind == "removed" ? '-'
                                                       : '*',
                                   path.substr(folder.size()),
                                   std::string_view(change.at("type").as_string()),
                                   change.at("size").to_number<std::int64_t>()));
    }
    return result;
  }

  std::string folder_;

 private:
  boost::asio::io_context loop_;
};

TEST_F(VmDisk, StandsStillWhileItIsFrozenAndNoLongerThanWasSaid) {
  run([]() -> Task<void> {
    const VmPtr vm = boot();
    if (!vm) co_return;
    SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    const std::string beats = "/home/user/beats";
    co_await shell(host,
                   "(while :; do echo x >>" + beats + "; sleep 0.01; done) </dev/null >/dev/null 2>&1 &");
    co_await until_grown(host, beats, 0);

    EXPECT_EQ((co_await ask(host, "freeze_disk", {{"limit_ms", 10'000}})).at("frozen"), true);
    const std::int64_t frozen_at = co_await size_of(host, beats);
    // What the daemon would write waits, and nothing of it holds its loop.
    co_await ask(host, "init", {{"env", JsonObject{{"KEPT", "yes"}}}});
    co_await sleep_for(Millis(500));
    EXPECT_EQ(co_await size_of(host, beats), frozen_at);
    EXPECT_EQ(co_await shell(host, "echo $KEPT"), "yes\n");
    co_await ask(host, "stats", {});
    EXPECT_EQ((co_await ask(host, "thaw_disk", {})).at("held"), true);
    co_await until_grown(host, beats, frozen_at);

    // A host that vanishes.
    EXPECT_EQ((co_await ask(host, "freeze_disk", {{"limit_ms", 3'000}})).at("frozen"), true);
    host->close("the host is gone");
    co_await sleep_for(Millis(100));
    host = co_await attach(*vm);
    if (!host) co_return;
    const std::int64_t left_at = co_await size_of(host, beats);
    co_await until_grown(host, beats, left_at);
    EXPECT_EQ((co_await ask(host, "thaw_disk", {})).at("held"), false);

    // Memory is never copied with a frozen disk in it.
    EXPECT_EQ((co_await ask(host, "freeze_disk", {{"limit_ms", 10'000}})).at("frozen"), true);
    EXPECT_EQ((co_await ask(host, "quiesce", {{"sync", true}})).at("synced"), true);
    EXPECT_EQ((co_await ask(host, "thaw_disk", {})).at("held"), false);
    co_await ask(host, "freeze_disk", {{"limit_ms", 10'000}}, 409);
    co_await ask(host, "thaw", {});
    co_await until_grown(host, beats, co_await size_of(host, beats));
  });
}

// How long a program that writes is held up, with nothing between freeze and thaw.
TEST_F(VmDisk, FreezeAndThawAreShort) {
  run([]() -> Task<void> {
    const VmPtr vm = boot();
    if (!vm) co_return;
    const SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    co_await shell(host, "true");
    for (const bool writing : {false, true}) {
      if (writing)
        co_await shell(host,
                       "(while :; do dd if=/dev/zero of=/home/user/w bs=1M count=5 conv=notrunc; "
                       "echo x >>/home/user/turns; sleep 0.1; done) </dev/null >/dev/null 2>&1 &");
      if (writing) co_await until_grown(host, "/home/user/turns", 20);
      const std::int64_t turns = writing ? co_await size_of(host, "/home/user/turns") : 0;
      std::vector<double> ms;
      const auto begun = std::chrono::steady_clock::now();
      for (int i = 0; i < 30; ++i) {
        const auto start = std::chrono::steady_clock::now();
        EXPECT_EQ((co_await ask(host, "freeze_disk", {{"limit_ms", 10'000}})).at("frozen"), true);
        EXPECT_EQ((co_await ask(host, "thaw_disk", {})).at("held"), true);
        ms.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        co_await sleep_for(Millis(100));
      }
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
      std::ranges::sort(ms);
      double rate = 0;
      if (writing)
        rate =
            static_cast<double>(co_await size_of(host, "/home/user/turns") - turns) / 2 * 5 / seconds.count();
      fmt::print("# freeze_disk and thaw_disk with a writer at {:.0f} MB/s: p50 {:.2f} ms, p90 {:.2f} ms\n",
                 rate, ms[15], ms[27]);
    }
  });
}

TEST_F(VmDisk, TwoCopiesAreComparedInAMachineForThat) {
  run([this]() -> Task<void> {
    VmPtr vm = boot();
    if (!vm) co_return;
    SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    co_await shell(
        host,
        "mkdir -p ~/t/folder; cd ~/t; for f in same content mode removed moved; do echo 1234 >$f; done;"
        "ln -s same link; cd folder; echo deep >deep");
    const std::string first = co_await copy_disk(*vm, host, "first.raw");
    co_await shell(host,
                   "cd ~/t; echo 4321 >content; chmod 600 mode; rm removed; mv moved renamed; ln same hard;"
                   "touch folder/deep; echo new >added; echo x >$'a\\nb'; ln -sf mode link");
    const std::string second = co_await copy_disk(*vm, host, "second.raw");
    // Flushed and never frozen: its journal is to be replayed.
    co_await shell(host, "echo late >~/t/late; sync");
    host->close("done");
    vm->kill();
    const std::string third = co_await copy_file(vm->folder() + "/disk.raw", "third.raw");
    vm.reset();

    for (const bool differ : {true, false}) {
      const auto start = std::chrono::steady_clock::now();
      const VmPtr judge = boot({.second_disk = differ ? first : co_await copy_file(second, "twin.raw"),
                                .third_disk = differ ? second : third});
      if (!judge) co_return;
      host = co_await attach(*judge);
      if (!host) co_return;
      const auto booted = std::chrono::steady_clock::now();
      const JsonObject found = co_await ask(host, "diff", {{"limit", 1000}});
      fmt::print("# diff: boot {} ms, comparison {} ms\n",
                 std::chrono::duration_cast<Millis>(booted - start).count(),
                 std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - booted).count());
      if (!differ) {
        EXPECT_THAT(below(found, "/home/user/"), ElementsAre("+t/late file 5"));
        continue;
      }
      EXPECT_EQ(found.at("truncated"), false);
      EXPECT_THAT(
          below(found, "/home/user/t/"),
          ElementsAre("+a\nb file 2", "+added file 4", "*content file 5", "+hard file 5", "*link symlink 4",
                      "*mode file 5", "-moved file 5", "-removed file 5", "+renamed file 5"));
      EXPECT_THAT(below(found, "/usr/"), IsEmpty());
      EXPECT_EQ((co_await ask(host, "diff", {{"limit", 2}})).at("truncated"), true);
      EXPECT_THAT(co_await shell(host, "cat /proc/mounts"), Not(HasSubstr("/run/space/")))
          << "nothing is left";
    }
  });
}

TEST_F(VmDisk, AMachineWithoutThemHasNothingToCompare) {
  run([]() -> Task<void> {
    const VmPtr vm = boot();
    if (!vm) co_return;
    const SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    co_await ask(host, "diff", {}, 404);
  });
}

}  // namespace
}  // namespace space
