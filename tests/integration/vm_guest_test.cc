// The daemon in a real virtual machine, as the host's control calls find it: woken with a new identity,
// warmed up, frozen, started again from its disk, replaced by another of its kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/sha256.h"
#include "net/http.h"
#include "tests/integration/bare_vm.h"
#include "tests/integration/guest_exec.h"

namespace space {
namespace {

namespace fs = std::filesystem;
using SessionPtr = std::shared_ptr<H2Session>;
using testing::HasSubstr;
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
  return Deadline::after(std::chrono::seconds(60));
}

class VmGuest : public testing::Test {
 protected:
  using VmPtr = std::unique_ptr<BareVm>;

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
  static VmPtr boot(const std::string& folder) {
    auto vm = BareVm::prepare(folder, {});
    EXPECT_TRUE(vm) << vm.error().message;
    if (!vm) return nullptr;
    const auto started = (*vm)->start();
    EXPECT_TRUE(started) << started.error().message;
    return started ? *std::move(vm) : nullptr;
  }
  static std::string images() {
    const char* folder = std::getenv("SPACE_TEST_IMAGES");
    if (folder == nullptr) ADD_FAILURE() << "SPACE_TEST_IMAGES names a template's folder";
    return folder != nullptr ? folder : "";
  }
  static Task<SessionPtr> attach(BareVm& vm) {
    auto session = co_await vm.attach(boot_limit());
    EXPECT_TRUE(session) << session.error().message;
    co_return session.value_or(nullptr);
  }
  static Task<JsonObject> ask(SessionPtr session, std::string name, JsonObject message) {
    const auto answer =
        co_await session->call({.path = "/control/" + name, .body = to_text(message)}, soon());
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) co_return JsonObject();
    EXPECT_EQ(answer->status, 200) << answer->body;
    co_return parse_json_object(answer->body, name).value_or(JsonObject());
  }
  static Task<std::string> shell(SessionPtr session, std::string script) {
    const auto ran = co_await run_in_guest(session, {"/bin/bash", "-c", script}, soon());
    EXPECT_TRUE(ran) << ran.error().message;
    co_return ran ? ran->output : "";
  }
  static Task<std::string> as_root(SessionPtr session, std::string script) {
    const auto ran = co_await run_in_guest(session, {"/usr/bin/sudo", "/bin/bash", "-c", script}, soon());
    EXPECT_TRUE(ran) << ran.error().message;
    co_return ran ? ran->output : "";
  }
  // A command that is killed when `limit` has passed.
  static Task<Result<GuestOutput>> limited(SessionPtr session, std::string script, Millis limit) {
    SPACE_CO_TRY(StreamPtr stream, co_await session->connect("localhost:49983", soon()));
    http::ClientConnection connection(std::move(stream));
    const std::string body = start_request_body({"/bin/bash", "-c", script});
    auto head = start_request_head(body.size());
    head.fields.add("Connect-Timeout-Ms", std::to_string(limit.count()));
    co_return co_await run_process(connection, head, body, soon());
  }
  static std::int64_t wall_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

 private:
  boost::asio::io_context loop_;
};

TEST_F(VmGuest, WakeGivesItATimeAndANameOfItsOwn) {
  run([]() -> Task<void> {
    const VmPtr vm = boot(images());
    if (!vm) co_return;
    const SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    EXPECT_EQ(to_text(co_await ask(host, "warm", {{"everything", true}})),
              R"({"ran":["shell","python3","node"]})");
    co_await as_root(host,
                     "mkdir -p /etc/space/post-restore.d; cd /etc/space/post-restore.d; "
                     "printf '#!/bin/sh\n(date +%%s; hostname; cat /proc/self/cgroup; "
                     "cat /sys/fs/cgroup/user/cgroup.freeze) > /run/seen\n' > look; chmod 755 look");
    const std::string names = "cat /etc/machine-id /proc/sys/kernel/random/boot_id";
    const std::string kernels = co_await shell(host, names);
    const std::string before = co_await shell(host, "cut -d. -f1 /proc/uptime");
    // Timers of the daemon are not the wall clock's: neither of these ends an hour too early.
    const std::string lease = "curl -s --unix-socket /run/space/guest.sock http://x/leases";
    co_await shell(host, lease + "/l -X PUT -d '{\"seconds\":600}'");
    std::optional<Result<GuestOutput>> under_way;
    spawn(co_await boost::asio::this_coro::executor, "under way", [](SessionPtr h, auto* out) -> Task<void> {
      out->emplace(co_await limited(h, "while ! [ -e /tmp/go ]; do sleep 0.1; done; exit 4", Millis(50'000)));
    }(host, &under_way));
    while ((co_await ask(host, "stats", {})).at("processes").to_number<int>() == 0)
      co_await sleep_for(Millis(5));
    EXPECT_EQ((co_await ask(host, "quiesce", {{"sync", true}})).at("frozen"), true);
    const std::int64_t later = wall_us() + 3'600'000'000;  // as if it had stood still for an hour
    const JsonObject answer = co_await ask(host, "wake",
                                           {{"entropy", to_base64(random_bytes(64))},
                                            {"wall_clock_us", later},
                                            {"sandbox_id", "icopy"},
                                            {"hostname", "copy"},
                                            {"init", JsonObject{{"env", JsonObject{{"A", "1"}}}}},
                                            {"generation", 41},
                                            {"hooks", true},
                                            {"thaw", true}});
    EXPECT_GT(answer.at("stepped_us").to_number<std::int64_t>(), 3'500'000'000);
    EXPECT_FALSE(answer.contains("failed")) << to_text(answer);
    EXPECT_EQ(to_text(answer.at("hooks")), R"([{"name":"look","status":"exit status 0"}])");
    const std::string seen = co_await shell(host, "cat /run/seen");
    EXPECT_THAT(seen, HasSubstr("\ncopy\n"));
    EXPECT_THAT(seen, HasSubstr("0::/hooks\n1\n")) << "it ran while the others were frozen";
    EXPECT_GE(number(seen), later / 1'000'000) << "the clock was set before it ran";
    EXPECT_EQ(co_await shell(host, "hostname; cat /run/space/generation; echo $A"), "copy\n41\n1\n");
    const std::string own = co_await shell(host, names);
    EXPECT_EQ(own.size(), kernels.size() == 37 ? 70U : kernels.size());
    EXPECT_NE(own.substr(own.size() - 37), kernels.substr(kernels.size() - 37));
    const std::int64_t elapsed = number(co_await shell(host, "cut -d. -f1 /proc/uptime")) - number(before);
    EXPECT_GE(elapsed, 0);
    EXPECT_LT(elapsed, 1800) << "the monotonic clock was moved with the other";

    EXPECT_THAT(co_await shell(host, lease), HasSubstr(R"("name":"l")"));
    EXPECT_FALSE(under_way) << "its timeout is far away";
    co_await shell(host, "touch /tmp/go");
    for (int i = 0; i < 5000 && !under_way; ++i) co_await sleep_for(Millis(1));
    EXPECT_EQ(under_way && *under_way ? (*under_way)->exit_code : -1, 4);
    const auto killed = co_await limited(host, "sleep 50", Millis(100));
    EXPECT_FALSE(killed && killed->exit_code == 0) << "a timeout is seen";

    // The way of a warm create: thawed, nothing new but token and time.
    std::vector<double> ms;
    for (int i = 0; i < 50; ++i) {
      co_await ask(host, "quiesce", {});
      const auto start = std::chrono::steady_clock::now();
      co_await ask(host, "wake",
                   {{"entropy", to_base64(random_bytes(64))},
                    {"wall_clock_us", wall_us()},
                    {"init", JsonObject{{"default_user", "user"}}},
                    {"thaw", true}});
      ms.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(ms);
    fmt::print("# wake of a warm create, from the host: p50 {:.2f} ms, p90 {:.2f} ms\n", ms[25], ms[45]);
  });
}

// The price of every command of a client, and what a template shares with all its sandboxes.
TEST_F(VmGuest, TheBaseTemplateForksNothingAtLoginAndHasNoIdentity) {
  run([]() -> Task<void> {
    const VmPtr vm = boot(images());
    if (!vm) co_return;
    const SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    const auto forks = [&host](std::string command) -> Task<std::int64_t> {
      const std::string script =
          "count() { while read -r k v _; do [[ $k == processes ]] && n=$v; done </proc/stat; }; "
          "least=99; for i in 1 2 3 4 5; do count; a=$n; bash -l -c '" +
          command + "'; count; d=$((n-a)); ((d < least)) && least=$d; done; echo $least";
      co_return number(co_await shell(host, script));
    };
    EXPECT_EQ(co_await forks("true"), 1) << "the shell itself";
    EXPECT_EQ(co_await forks("/bin/true; true"), 2) << "one more would be seen";
    EXPECT_EQ(co_await shell(host,
                             "wc -c </etc/machine-id; ls /etc/ssh/*_key /var/lib/systemd/random-seed "
                             "/var/lib/urandom /var/lib/cloud 2>/dev/null"),
              "0\n");
    co_await ask(host, "identity", {{"sandbox_id", "ione"}, {"hostname", "one"}});
    EXPECT_EQ(co_await shell(host, "wc -c </etc/machine-id"), "33\n");
  });
}

TEST_F(VmGuest, WhatInitSetIsThereAfterABootOfTheSameDisk) {
  run([]() -> Task<void> {
    VmPtr vm = boot(images());
    if (!vm) co_return;
    {
      const SessionPtr host = co_await attach(*vm);
      if (!host) co_return;
      co_await ask(host, "identity", {{"sandbox_id", "ione"}, {"hostname", "one"}});
      co_await ask(host, "init", {{"env", JsonObject{{"KEPT", "yes"}}}, {"default_workdir", "/tmp"}});
      EXPECT_EQ(co_await shell(host, "echo $KEPT; cat /var/lib/space/init.json 2>/dev/null"), "yes\n");
      co_await shell(host, "cat /etc/machine-id > machine; sleep 600 </dev/null >/dev/null 2>&1 &");
      const auto start = std::chrono::steady_clock::now();
      co_await ask(host, "shutdown", {});
      const auto status = co_await run_blocking([&] { return vm->wait(boot_limit()); });
      EXPECT_TRUE(status) << "it did not stop";
      fmt::print("# from shutdown to the end of the VMM: {} ms\n",
                 std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - start).count());
    }
    const std::string folder = vm->folder() + "/again";
    fs::create_directory(folder);
    for (const char* file : {"manifest.json", "vmlinuz", "initramfs.img"})
      fs::copy_file(images() + "/" + file, folder + "/" + file);
    fs::rename(vm->folder() + "/disk.raw", folder + "/disk.raw");
    const VmPtr again = boot(folder);
    if (!again) co_return;
    const SessionPtr host = co_await attach(*again);
    if (!host) co_return;
    co_await ask(host, "identity", {{"sandbox_id", "ione"}, {"hostname", "one"}});
    EXPECT_EQ(co_await shell(host, "echo $KEPT; pwd"), "yes\n/tmp\n");
    EXPECT_EQ(co_await shell(host, "cmp /etc/machine-id /tmp/machine && echo same"), "same\n");
  });
}

TEST_F(VmGuest, ProcessOneIsReplacedAndItsProgramsGoOn) {
  run([]() -> Task<void> {
    const VmPtr vm = boot(images());
    if (!vm) co_return;
    SessionPtr host = co_await attach(*vm);
    if (!host) co_return;
    const char* build = std::getenv("SPACE_BUILD");
    const auto program =
        read_file(fmt::format("{}/space-daemon", build != nullptr ? build : "build/release"), 1 << 24);
    EXPECT_TRUE(program) << "SPACE_BUILD names the folder of the built programs";
    if (!program) co_return;
    co_await ask(host, "init", {{"env", JsonObject{{"KEPT", "yes"}}}});
    const std::string sleeper = co_await shell(host, "sleep 600 </dev/null >/dev/null 2>&1 & echo $!");
    EXPECT_THAT(co_await as_root(host, "readlink /proc/1/exe"), Not(HasSubstr("memfd")));
    // One under way all the time: what it says after the exec is still heard, and its end.
    std::optional<Result<GuestOutput>> waiting;
    spawn(co_await boost::asio::this_coro::executor, "waiting", [](SessionPtr h, auto* out) -> Task<void> {
      out->emplace(co_await run_in_guest(
          h, {"/bin/bash", "-c", "while ! [ -e /tmp/go ]; do sleep 0.1; done; exit 9"}, soon()));
    }(host, &waiting));

    const std::string digest = sha256_hex(*program);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t at = 0; at < program->size(); at += 512 * 1024)
      co_await ask(host, "upgrade",
                   {{"sha256", digest},
                    {"size", program->size()},
                    {"offset", at},
                    {"data", to_base64(as_bytes(std::string_view(*program).substr(at, 512 * 1024)))}});
    const auto sent = std::chrono::steady_clock::now();
    const Deadline limit = soon();
    while (!host->closed() && !limit.passed()) co_await sleep_for(Millis(1));
    EXPECT_TRUE(host->closed());
    host = co_await attach(*vm);
    if (!host) co_return;
    fmt::print("# upgrade: {} bytes sent in {} ms, attached again after {} ms\n", program->size(),
               std::chrono::duration_cast<Millis>(sent - start).count(),
               std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - sent).count());
    EXPECT_THAT(co_await as_root(host, "readlink /proc/1/exe"), HasSubstr("memfd"));
    EXPECT_EQ(co_await shell(host, "echo $KEPT; ps -o comm= -p " + sleeper), "yes\nsleep\n");
    EXPECT_THAT((co_await ask(host, "stats", {})).at("processes").to_number<int>(), 1);
    for (int i = 0; i < 2000 && !waiting; ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(waiting && !*waiting) << "the stream of the old daemon ends with it";
    co_await shell(host, "touch /tmp/go");
    for (int i = 0; i < 100; ++i) {
      if ((co_await ask(host, "stats", {})).at("processes").to_number<int>() == 0) break;
      co_await sleep_for(Millis(100));
    }
    EXPECT_EQ((co_await ask(host, "stats", {})).at("processes").to_number<int>(), 0);
    EXPECT_EQ((co_await ask(host, "quiesce", {})).at("frozen"), true);
    co_await ask(host, "thaw", {});
    EXPECT_EQ(co_await shell(host, "echo thawed"), "thawed\n");
  });
}

}  // namespace
}  // namespace space
