// Saving and loading devices: the contract that the real QEMU keeps too (tests/integration), and what a fake
// can do that a real one would not.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "vmm/fake_qemu.h"
#include "vmm/qmp.h"
#include "vmm/receiving_stream.h"
#include "vmm/snapshot_contract.h"

namespace space::vmm {
namespace {

using contract::soon;
using contract::state_file;

// Over the two transports that carry descriptors.
class QmpSnapshot : public testing::TestWithParam<const char*> {
 protected:
  using Script = std::function<Task<void>(Qmp&)>;

  void with_session(Script script) {
    bool ended = false;
    spawn(loop_.get_executor(), "test", [](QmpSnapshot& test, Script body, bool& done) -> Task<void> {
      auto qmp = co_await Qmp::open(test.connect(), {}, soon());
      EXPECT_TRUE(qmp) << qmp.error().message;
      if (qmp) co_await body(**qmp);
      done = true;
    }(*this, std::move(script), ended));
    loop_.run();
    loop_.restart();
    ASSERT_TRUE(ended);
  }

  // A descriptor was there, and was taken back.
  bool given_back() const { return std::ranges::count(qemu.commands, "remove-fd") == 1; }

  FakeQemu qemu;

 private:
  StreamPtr connect() {
    const Executor executor = loop_.get_executor();
    if (GetParam() == std::string_view("pair")) {
      auto [ours, theirs] = make_stream_pair(executor);
      spawn(executor, "fake qemu", FakeQemu::serve(qemu, std::move(theirs)));
      return std::move(ours);
    }
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    spawn(executor, "fake qemu",
          FakeQemu::serve(qemu, std::make_unique<ReceivingStream>(executor, Fd(fds[1]))));
    return make_stream(executor, Fd(fds[0]));
  }

  boost::asio::io_context loop_;
};

INSTANTIATE_TEST_SUITE_P(Over, QmpSnapshot, testing::Values("pair", "unix"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(QmpSnapshot, TheFakeKeepsTheContract) {
  std::string saved;
  with_session([&saved](Qmp& qmp) -> Task<void> {
    saved = co_await contract::saves_and_goes_on(qmp);
    co_await contract::takes_no_state_when_booted(qmp, saved);
  });
  EXPECT_EQ(saved, qemu.device_state);

  qemu = FakeQemu();
  qemu.state = "inmigrate";
  with_session([&saved](Qmp& qmp) -> Task<void> { co_await contract::loads_and_runs(qmp, saved); });
  EXPECT_EQ(qemu.loaded_state, saved);

  qemu = FakeQemu();
  qemu.state = "inmigrate";
  with_session([](Qmp& qmp) -> Task<void> { co_await contract::refuses_what_is_no_state(qmp, "no state"); });
}

TEST_P(QmpSnapshot, AStateAsLongAsMayBeIsReadWhole) {
  qemu.device_state.assign(device_state_limit_bytes, 'x');
  with_session([](Qmp& qmp) -> Task<void> {
    const auto saved = co_await qmp.save_device_state(soon());
    EXPECT_TRUE(saved.has_value() && *saved == std::string(device_state_limit_bytes, 'x'));
  });
  qemu.device_state += 'x';
  with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ((co_await qmp.save_device_state(soon())).error().code, Code::exhausted);
    EXPECT_TRUE(co_await qmp.cont(soon())) << "the session goes on";
  });
  qemu.device_state.clear();
  with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ((co_await qmp.save_device_state(soon())).error().code, Code::invalid_argument);
  });
}

// Each step of a save or load refused: its own error, the descriptor taken back, the session of use.
TEST_P(QmpSnapshot, ARefusalLeavesNothingBehind) {
  for (const std::string step : {"add-fd", "xen-save-devices-state"}) {
    qemu = FakeQemu();
    qemu.failing[step] = "no " + step + " today";
    with_session([step](Qmp& qmp) -> Task<void> {
      const auto saved = co_await qmp.save_device_state(soon());
      EXPECT_FALSE(saved) << step;
      if (!saved) EXPECT_EQ(saved.error().message, step + ": no " + step + " today");
      EXPECT_EQ(co_await contract::fd_sets(qmp, 0), 0u) << step;
      EXPECT_EQ(co_await contract::state_of(qmp), "running");
    });
    EXPECT_EQ(given_back(), step != "add-fd") << step;
  }
  for (const std::string step : {"add-fd", "migrate-incoming", "query-migrate"}) {
    qemu = FakeQemu();
    qemu.state = "inmigrate";
    qemu.failing[step] = "no " + step + " today";
    with_session([step](Qmp& qmp) -> Task<void> {
      const auto loaded = co_await qmp.load_device_state(state_file("QEVM"), soon());
      EXPECT_FALSE(loaded) << step;
      if (!loaded) EXPECT_EQ(loaded.error().message, step + ": no " + step + " today");
      EXPECT_EQ(co_await contract::fd_sets(qmp, 0), 0u) << step;
    });
    EXPECT_EQ(given_back(), step != "add-fd") << step;
  }
}

TEST_P(QmpSnapshot, OneThatNeverAnswersCostsTheDeadline) {
  qemu.raw_answers["xen-save-devices-state"] = "";
  with_session([](Qmp& qmp) -> Task<void> {
    const auto saved = co_await qmp.save_device_state(Deadline::after(Millis(20)));
    EXPECT_EQ(saved.error().code, Code::deadline);
    EXPECT_EQ(co_await contract::fd_sets(qmp, 0), 0u);
  });
  qemu = FakeQemu();
  qemu.state = "inmigrate";
  qemu.polls_while_loading = 1'000'000;
  with_session([](Qmp& qmp) -> Task<void> {
    const auto loaded = co_await qmp.load_device_state(state_file("QEVM"), Deadline::after(Millis(20)));
    EXPECT_EQ(loaded.error().code, Code::deadline);
    EXPECT_EQ(co_await contract::fd_sets(qmp, 0), 0u);
  });
}

TEST_P(QmpSnapshot, ACancelledSaveTakesItsDescriptorBack) {
  qemu.raw_answers["xen-save-devices-state"] = "";
  with_session([](Qmp& qmp) -> Task<void> {
    const auto cut =
        co_await with_deadline(qmp.save_device_state(soon()), Deadline::after(Millis(20)), "save");
    EXPECT_EQ(cut.error().message, "save took longer than 20 ms");
    EXPECT_EQ(co_await contract::fd_sets(qmp, 0), 0u);
  });
  EXPECT_TRUE(given_back());
}

TEST_P(QmpSnapshot, AnswersOfAnotherShapeAreRefused) {
  const std::pair<const char*, const char*> bad[] = {
      {"add-fd", R"({"return":{},"id":2})"},
      {"add-fd", R"({"return":7,"id":2})"},
      {"add-fd", R"({"return":{"fdset-id":-1},"id":2})"},
      {"query-migrate", R"({"return":[],"id":4})"},
      {"query-migrate", R"({"return":{"status":5},"id":4})"},
      {"query-migrate", R"({"return":{"status":"failed","error-desc":{}},"id":4})"}};
  for (const auto& [step, answer] : bad) {
    qemu = FakeQemu();
    qemu.state = "inmigrate";
    qemu.raw_answers[step] = std::string(answer) + "\n";
    with_session([answer](Qmp& qmp) -> Task<void> {
      const auto loaded = co_await qmp.load_device_state(state_file("QEVM"), soon());
      EXPECT_TRUE(!loaded && loaded.error().code == Code::invalid_argument) << answer;
      EXPECT_FALSE(qmp.closed());
    });
  }
}

}  // namespace
}  // namespace space::vmm
