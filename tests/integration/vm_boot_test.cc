// A real virtual machine of the base template, without the platform: the command line boots it, the channel
// attaches, the daemon does its work, QMP drives it, it ends.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "tests/integration/bare_vm.h"
#include "tests/integration/guest_exec.h"
#include "vmm/qmp.h"

namespace space {
namespace {

using SessionPtr = std::shared_ptr<H2Session>;

// A boot takes 3 s alone and ten times as long beside a build.
Deadline boot_limit() {
  return Deadline::after(std::chrono::seconds(120));
}
Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

class VmBoot : public testing::Test {
 public:
  using Script = std::function<Task<void>(VmBoot&, SessionPtr)>;

  void boot(BareVm::Shape shape) {
    const char* images = std::getenv("SPACE_TEST_IMAGES");
    ASSERT_NE(images, nullptr)
        << "SPACE_TEST_IMAGES names a template's folder; tests/integration/run sets it";
    auto prepared = BareVm::prepare(images, shape);
    ASSERT_TRUE(prepared) << prepared.error().message;
    vm = std::move(*prepared);
    const auto started = vm->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  // Attaches and runs `script`.
  void with_channel(Script script) {
    bool ended = false;
    spawn(loop_.get_executor(), "test", [](VmBoot& test, Script body, bool& done) -> Task<void> {
      auto session = co_await test.vm->attach(boot_limit());
      EXPECT_TRUE(session) << session.error().message;
      if (session) {
        co_await body(test, *session);
        (*session)->close("test over");
      }
      done = true;
    }(*this, std::move(script), ended));
    loop_.run();
    loop_.restart();
    ASSERT_TRUE(ended);
  }

  static Task<JsonObject> control(SessionPtr session, std::string name) {
    const auto answer = co_await session->call({.path = "/control/" + name, .body = "{}"}, soon());
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) co_return JsonObject();
    EXPECT_EQ(answer->status, 200) << answer->body;
    co_return parse_json_object(answer->body, name).value_or(JsonObject());
  }

  std::unique_ptr<BareVm> vm;

 private:
  boost::asio::io_context loop_;
};

TEST_F(VmBoot, ServesTheChannelAndRunsPrograms) {
  boot({});
  with_channel([](VmBoot&, SessionPtr session) -> Task<void> {
    EXPECT_TRUE(co_await session->ping(soon()));
    co_await control(session, "ping");
    const JsonObject stats = co_await control(session, "stats");
    EXPECT_EQ(require_int(stats, "cpu_count", 0, 64).value_or(-1), 1);
    EXPECT_GT(require_int(stats, "mem_total", 0, 1LL << 40).value_or(-1), 400LL << 20);
    EXPECT_GT(require_int(stats, "disk_total", 0, 1LL << 40).value_or(-1), 3500LL << 20);

    const auto nothing = co_await run_in_guest(session, {"/bin/true"}, soon());
    EXPECT_EQ(nothing.value_or(GuestOutput{}).exit_code, 0);
    const auto sum = co_await run_in_guest(session, {"/bin/bash", "-c", "echo $((6*7)); exit 3"}, soon());
    EXPECT_EQ(sum.value_or(GuestOutput{}).output, "42\n");
    EXPECT_EQ(sum.value_or(GuestOutput{}).exit_code, 3);
    const auto network = co_await run_in_guest(session, {"/bin/cat", "/sys/class/net/eth0/address"}, soon());
    EXPECT_EQ(network.value_or(GuestOutput{}).output, "02:53:50:41:43:45\n");
    // Time passes at the host's rate: what tsc_early_khz is for.
    const auto before = std::chrono::steady_clock::now();
    const auto slept = co_await run_in_guest(session, {"/bin/sleep", "2"}, soon());
    EXPECT_EQ(slept.value_or(GuestOutput{}).exit_code, 0);
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(1950));
  });
  // A second attach, after the first hung up.
  with_channel([](VmBoot&, SessionPtr session) -> Task<void> {
    const auto again = co_await run_in_guest(session, {"/bin/echo", "again"}, soon());
    EXPECT_EQ(again.value_or(GuestOutput{}).output, "again\n");
    const auto shutdown = co_await session->call({.path = "/control/shutdown", .body = "{}"}, soon());
    EXPECT_TRUE(shutdown) << shutdown.error().message;
  });
  const auto status = vm->wait(boot_limit());
  ASSERT_TRUE(status) << "after a shutdown QEMU ends";
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
}

// Enough small messages for every order of bytes, interrupts and reads: none may be left lying in the guest's
// port until the next one comes.
TEST_F(VmBoot, ManyRoundTripsNeverStandStill) {
  boot({});
  with_channel([](VmBoot&, SessionPtr session) -> Task<void> {
    constexpr int rounds = 500;
    int done = 0;
    for (; done < rounds; ++done) {
      const auto called = co_await session->call({.path = "/control/ping", .body = "{}"}, soon());
      const auto ran = co_await run_in_guest(session, {"/bin/true"}, soon());
      if (!called || !ran || !co_await session->ping(soon())) break;
    }
    EXPECT_EQ(done, rounds);
  });
}

TEST_F(VmBoot, QmpStopsAndContinuesTheGuest) {
  boot({.vcpus = 2, .memory_mib = 256});
  with_channel([](VmBoot& test, SessionPtr session) -> Task<void> {
    const JsonObject stats = co_await control(session, "stats");
    EXPECT_EQ(require_int(stats, "cpu_count", 0, 64).value_or(-1), 2);

    auto stream = co_await connect_unix(test.vm->qmp_path(), soon());
    if (!stream) co_return ADD_FAILURE() << stream.error().message;
    std::vector<vmm::QmpEvent> events;
    auto opened = co_await vmm::Qmp::open(
        std::move(*stream), [&events](vmm::QmpEvent event) { events.push_back(event); }, soon());
    if (!opened) co_return ADD_FAILURE() << opened.error().message;
    vmm::Qmp& qmp = **opened;
    EXPECT_TRUE((co_await qmp.query_status(soon())).value_or(vmm::VmStatus{}).running);

    EXPECT_TRUE(co_await qmp.stop(soon()));
    EXPECT_EQ((co_await qmp.query_status(soon())).value_or(vmm::VmStatus{}).state, "paused");
    const auto silent =
        co_await session->call({.path = "/control/ping", .body = "{}"}, Deadline::after(Millis(200)));
    EXPECT_FALSE(silent) << "a stopped guest answers nothing";
    EXPECT_TRUE(co_await qmp.cont(soon()));
    co_await control(session, "ping");
    EXPECT_EQ(events, (std::vector{vmm::QmpEvent::stop, vmm::QmpEvent::resume}));
    EXPECT_TRUE(co_await qmp.console_text(soon()));

    EXPECT_TRUE(co_await qmp.quit(soon()));
  });
  const auto status = vm->wait(soon());
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
}

TEST_F(VmBoot, AKilledVmEndsWhatIsUnderWay) {
  boot({});
  with_channel([](VmBoot& test, SessionPtr session) -> Task<void> {
    spawn(co_await boost::asio::this_coro::executor, "killer", [](VmBoot& victim) -> Task<void> {
      co_await sleep_for(Millis(100));
      victim.vm->kill();
    }(test));
    const auto cut = co_await run_in_guest(session, {"/bin/sleep", "60"}, soon());
    EXPECT_FALSE(cut) << "the program cannot have ended";
    EXPECT_FALSE(co_await session->ping(soon()));
  });
  const auto status = vm->wait(soon());
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) << *status;
}

}  // namespace
}  // namespace space
