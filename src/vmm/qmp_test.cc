#include "vmm/qmp.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "vmm/fake_qemu.h"

namespace space::vmm {
namespace {

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

// One client and one fake on a loop of their own.
class QmpTest : public testing::Test {
 protected:
  using Script = std::function<Task<void>(Qmp&)>;

  // Opens, runs `script`, closes. The result of opening.
  Result<void> with_session(Script script) {
    Result<void> opened;
    run([](QmpTest& test, StreamPtr stream, Script body, Result<void>& result) -> Task<void> {
      auto handler = [&test](QmpEvent event) { test.events.push_back(event); };
      auto qmp = co_await Qmp::open(std::move(stream), handler, soon());
      if (qmp && body) co_await body(**qmp);
      if (!qmp) result = std::unexpected(qmp.error());
    }(*this, connect(), std::move(script), opened));
    return opened;
  }

  StreamPtr connect() {
    auto [ours, theirs] = make_stream_pair(loop_.get_executor());
    spawn(loop_.get_executor(), "fake qemu", FakeQemu::serve(qemu, std::move(theirs)));
    return std::move(ours);
  }
  void run(Task<void> task) {
    spawn(loop_.get_executor(), "test", std::move(task));
    loop_.run();
    loop_.restart();
  }

  FakeQemu qemu;
  std::vector<QmpEvent> events;

 private:
  boost::asio::io_context loop_;
};

TEST_F(QmpTest, DrivesAVirtualMachine) {
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ(qmp.server_version(), "10.0.2");
    EXPECT_TRUE((co_await qmp.query_status(soon()))->running);
    EXPECT_TRUE(co_await qmp.stop(soon()));
    const auto paused = co_await qmp.query_status(soon());
    EXPECT_FALSE(paused->running);
    EXPECT_EQ(paused->state, "paused");
    EXPECT_TRUE(co_await qmp.cont(soon()));
    EXPECT_TRUE((co_await qmp.query_status(soon()))->running);
    EXPECT_EQ(*co_await qmp.console_text(soon()), "booting\n");
    EXPECT_EQ(*co_await qmp.console_text(soon()), "");
    EXPECT_TRUE(co_await qmp.system_powerdown(soon()));
    EXPECT_TRUE(co_await qmp.quit(soon()));
  });
  EXPECT_TRUE(opened);
  EXPECT_EQ(qemu.commands.front(), "qmp_capabilities");
}

TEST_F(QmpTest, AnswersCutAnywhereAreTheSame) {
  for (std::size_t bytes = 1; bytes < 40; ++bytes) {
    qemu = FakeQemu();
    qemu.chunk_bytes = bytes;
    const auto opened = with_session([](Qmp& qmp) -> Task<void> {
      EXPECT_TRUE(co_await qmp.stop(soon()));
      EXPECT_EQ((co_await qmp.query_status(soon()))->state, "paused");
    });
    ASSERT_TRUE(opened) << bytes;
  }
}

TEST_F(QmpTest, AnErrorOfQemuEndsTheCommandNotTheSession) {
  qemu.state = "shutdown";
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    const auto resumed = co_await qmp.cont(soon());
    EXPECT_EQ(resumed.error().code, Code::internal);
    EXPECT_EQ(resumed.error().message, "cont: Resetting the Virtual Machine is required");
    EXPECT_EQ((co_await qmp.execute("no-such", {}, soon())).error().code, Code::not_found);
    EXPECT_EQ((co_await qmp.query_status(soon()))->state, "shutdown");
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, ReportsTheEventsItKnows) {
  qemu.before["stop"] = R"({"event":"RTC_CHANGE","data":{"offset":0},"timestamp":{}})"
                        "\r\n"
                        R"({"event":"STOP","timestamp":{"seconds":1,"microseconds":2}})"
                        "\r\n"
                        R"({"event":"BLOCK_IO_ERROR","data":{"device":""}})"
                        "\r\n"
                        R"({"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-reset"}})"
                        "\r\n"
                        R"({"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-shutdown"}})"
                        "\r\n";
  EXPECT_TRUE(with_session([](Qmp& qmp) -> Task<void> { EXPECT_TRUE(co_await qmp.stop(soon())); }));
  EXPECT_EQ(events, (std::vector{QmpEvent::stop, QmpEvent::block_io_error, QmpEvent::guest_reset,
                                 QmpEvent::shutdown}));
}

TEST_F(QmpTest, CommandsTakeTurns) {
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    int done = 0;
    Event finished(co_await boost::asio::this_coro::executor);
    for (int i = 0; i < 50; ++i) {
      spawn(co_await boost::asio::this_coro::executor, "caller",
            [](Qmp& session, int& count, Event& event) -> Task<void> {
              EXPECT_TRUE(co_await session.query_status(soon()));
              ++count;
              event.notify_all();
            }(qmp, done, finished));
    }
    while (done < 50) co_await finished.wait();
  });
  EXPECT_TRUE(opened);
  EXPECT_EQ(qemu.commands.size(), 51u);
  EXPECT_EQ(qemu.most_in_flight, 1u);
}

TEST_F(QmpTest, ALateAnswerIsNotTakenForTheNext) {
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    const auto late = co_await qmp.execute("hold", {}, Deadline::after(Millis(5)));
    EXPECT_EQ(late.error().code, Code::deadline);
    // The held answer comes first, its own after it.
    EXPECT_TRUE(co_await qmp.execute("release", {}, soon()));
    EXPECT_EQ((co_await qmp.query_status(soon()))->state, "running");
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, AQemuThatIsNoQemuIsRefused) {
  const std::string long_line(2 * qmp_line_limit_bytes, 'x');
  std::string deep(100, '[');
  for (const std::string& greeting :
       {std::string("SSH-2.0-OpenSSH"), std::string("{}"), std::string(R"({"QMP":{}})"),
        std::string("\0\0\0", 3),
        std::string(R"({"QMP":{"version":{"qemu":{"major":-1,"minor":0,"micro":0}}}})"), deep, long_line}) {
    qemu = FakeQemu();
    qemu.greeting = greeting;
    const auto opened = with_session({});
    ASSERT_FALSE(opened) << greeting.substr(0, 40);
    EXPECT_EQ(opened.error().code, Code::unavailable);
  }
}

// Each ends the session, and the command under way with it; none is taken for an answer.
TEST_F(QmpTest, AMalformedAnswerEndsTheSession) {
  const std::string endless(2 * qmp_line_limit_bytes, ' ');
  for (const std::string& answer :
       {std::string("not json\n"), std::string(R"({"return":{}})") + "\n",
        std::string(R"({"return":{},"id":99})") + "\n", std::string(R"({"return":{},"id":"2"})") + "\n",
        std::string(R"({"return":{},"id":-1})") + "\n", std::string(R"({"error":"text","id":2})") + "\n",
        std::string("\xff\xfe\n"), std::string("\n"), endless,
        std::string(R"({"QMP":{"version":{"qemu":{"micro":0,"minor":0,"major":1}}}})") + "\n"}) {
    qemu = FakeQemu();
    qemu.raw_answers["stop"] = answer;
    const auto opened = with_session([](Qmp& qmp) -> Task<void> {
      EXPECT_EQ((co_await qmp.stop(soon())).error().code, Code::unavailable);
      EXPECT_TRUE(qmp.closed());
      EXPECT_EQ((co_await qmp.cont(soon())).error().code, Code::unavailable);
    });
    ASSERT_TRUE(opened) << answer.substr(0, 40);
  }
}

TEST_F(QmpTest, AnswersOfAnotherShapeAreRefused) {
  qemu.raw_answers["query-status"] = R"({"return":{"running":"yes","status":5},"id":2})"
                                     "\n";
  qemu.raw_answers["ringbuf-read"] = R"({"return":{"data":""},"id":3})"
                                     "\n";
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ((co_await qmp.query_status(soon())).error().code, Code::invalid_argument);
    EXPECT_EQ((co_await qmp.console_text(soon())).error().code, Code::invalid_argument);
    EXPECT_FALSE(qmp.closed());
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, AFloodOfEventsEndsTheSession) {
  for (int i = 0; i < 200'000; ++i) qemu.before["stop"] += "{\"event\":\"RTC_CHANGE\"}\n";
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ((co_await qmp.stop(soon())).error().code, Code::unavailable);
    EXPECT_TRUE(qmp.closed());
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, AStalledQemuCostsTheDeadline) {
  qemu.raw_answers["stop"] = R"({"return":)";  // and nothing more
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_EQ((co_await qmp.stop(Deadline::after(Millis(10)))).error().code, Code::deadline);
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, TheEndOfQemuFailsWhatIsUnderWayAndAllAfter) {
  qemu.raw_answers["stop"] = "";
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    EXPECT_TRUE(co_await qmp.quit(soon()));
    EXPECT_EQ((co_await qmp.query_status(soon())).error().code, Code::unavailable);
  });
  EXPECT_TRUE(opened);
}

TEST_F(QmpTest, ClosingWakesAWaitingCommand) {
  qemu.raw_answers["stop"] = "";
  const auto opened = with_session([](Qmp& qmp) -> Task<void> {
    spawn(co_await boost::asio::this_coro::executor, "closer", [](Qmp& session) -> Task<void> {
      co_await sleep_for(Millis(1));
      session.close("test over");
    }(qmp));
    const auto stopped = co_await qmp.stop(soon());
    EXPECT_EQ(stopped.error().message, "stop: QMP session closed: test over");
  });
  EXPECT_TRUE(opened);
}

}  // namespace
}  // namespace space::vmm
