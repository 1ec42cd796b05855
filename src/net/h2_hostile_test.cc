// Peers that break the rules. One side is a session, the other writes frames by hand.

#include <optional>

#include "net/h2_session.h"
#include "net/h2_test_frames.h"
#include "net/test_loop.h"

namespace space {
namespace {

namespace h2 = h2_test;
using std::chrono::seconds;

class H2HostileTest : public LoopTest {
 protected:
  void start_server(H2Limits limits = {}) {
    auto [mine, theirs] = make_stream_pair(executor());
    peer = std::move(theirs);
    session =
        H2Session::server(std::move(mine),
                          {.call = [this](CallRequest request) { return serve(std::move(request)); },
                           .connect = [this](std::string authority) { return decide(std::move(authority)); }},
                          limits);
    spawn(executor(), "run", keep_reason(session, end));
  }
  void start_client(H2Limits limits = {}) {
    auto [mine, theirs] = make_stream_pair(executor());
    peer = std::move(theirs);
    session = H2Session::client(std::move(mine), limits);
    spawn(executor(), "run", keep_reason(session, end));
  }
  static Task<void> keep_reason(std::shared_ptr<H2Session> running, std::optional<Error>& reason) {
    reason = co_await running->run();
  }
  Task<CallResponse> serve(CallRequest request) {
    ++handlers;
    most_handlers = std::max(most_handlers, handlers);
    if (request.path == "/slow") co_await sleep_for(Millis(30));
    --handlers;
    co_return CallResponse{200, std::string(request.path == "/big" ? 100'000 : 0, 'x')};
  }
  Task<Result<H2Handlers::Tunnel>> decide(std::string) {
    co_return [this](StreamPtr stream) { return keep(std::move(stream)); };
  }
  Task<void> keep(StreamPtr stream) {
    tunnels.push_back(std::move(stream));
    co_return;
  }
  static Task<void> settle() { co_await sleep_for(Millis(20)); }

  // False when the session hung up.
  Task<bool> send(std::string bytes) { co_return (co_await peer->write(as_bytes(bytes))).has_value(); }
  Task<bool> greet() { return send(std::string(h2::preface) + h2::frame(h2::settings, 0, 0, "")); }
  Task<void> keep_reading() {
    Bytes buffer(65536);
    while (true) {
      const auto count = co_await peer->read(buffer);
      if (!count || *count == 0) break;
      answers += as_text(std::span(buffer).first(*count));
    }
  }
  Task<void> refuse_without_end() {
    co_await settle();
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers, 1, h2::header(":status", "503")) +
                              h2::frame(h2::data, 0, 1, std::string(5000, 'n'))));
  }
  Task<void> await_end() {
    while (!end) co_await sleep_for(Millis(1));
  }

  StreamPtr peer;
  std::shared_ptr<H2Session> session;
  std::optional<Error> end;
  std::vector<StreamPtr> tunnels;
  std::string answers;
  std::size_t handlers = 0;
  std::size_t most_handlers = 0;
};

TEST_F(H2HostileTest, GarbageInPlaceOfThePrefaceEndsTheSession) {
  start_server();
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    co_await await_end();
    EXPECT_EQ(end->code, Code::internal);
  });
}

TEST_F(H2HostileTest, RapidResetEndsTheSessionAndBoundsTheHandlers) {
  start_server({.streams_max = 16, .resets_per_second_max = 500});
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await greet());
    int rounds = 0;
    for (std::uint32_t id = 1; !end; id += 2, ++rounds) {
      if (!co_await send(h2::frame(h2::headers, h2::end_headers | h2::end_stream, id, h2::post("/slow")) +
                         h2::frame(h2::rst_stream, 0, id, std::string("\0\0\0\x8", 4))))
        break;
      if (rounds % 10 == 0) co_await sleep_for(Millis(0));
    }
    co_await await_end();
    EXPECT_EQ(end->code, Code::exhausted);
    EXPECT_EQ(end->message, "the peer resets streams too often");
    EXPECT_LE(most_handlers, 16U);
    EXPECT_GE(most_handlers, 1U);
  });
}

TEST_F(H2HostileTest, EmptyFramesWithoutEndCountLikeResets) {
  start_server({.resets_per_second_max = 500});
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await greet());
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers, 1, h2::post("/"))));
    while (co_await send(h2::frame(h2::data, 0, 1, ""))) {
    }
    co_await await_end();
    EXPECT_EQ(end->code, Code::exhausted);
  });
}

TEST_F(H2HostileTest, AHeaderBeyondTheLimitEndsTheSession) {
  start_server();
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await greet());
    std::string block = h2::post("/");
    while (block.size() < 15'000) block += h2::header("x", std::string(50, 'y'));
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers | h2::end_stream, 1, block)));
    co_await await_end();
    EXPECT_EQ(end->code, Code::exhausted);
    EXPECT_EQ(most_handlers, 0U);
  });
}

TEST_F(H2HostileTest, ABodyBeyondTheLimitIsResetAndOthersAreServed) {
  start_server({.call_body_bytes_max = 20'000});
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await greet());
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers, 1, h2::post("/"))));
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(co_await send(h2::frame(h2::data, 0, 1, std::string(10'000, 'x'))));
    co_await settle();
    EXPECT_NE(answers.find(h2::frame(h2::rst_stream, 0, 1, std::string("\0\0\0\xb", 4))), std::string::npos);
    EXPECT_EQ(session->open_streams(), 0U);
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers | h2::end_stream, 3, h2::post("/"))));
    co_await settle();
    EXPECT_EQ(most_handlers, 1U);
    EXPECT_FALSE(end);
  });
}

TEST_F(H2HostileTest, ATunnelThatIgnoresItsWindowIsEnded) {
  start_server();
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await greet());
    EXPECT_TRUE(co_await send(h2::frame(h2::settings, h2::ack, 0, "")));
    EXPECT_TRUE(co_await send(h2::frame(h2::headers, h2::end_headers, 1, h2::connect("x:1"))));
    std::size_t sent = 0;
    while (sent < 1'000'000 && co_await send(h2::frame(h2::data, 0, 1, std::string(10'000, 'x'))))
      sent += 10'000;
    co_await settle();
    EXPECT_EQ(tunnels.size(), 1U);
    std::array<std::byte, 16> buffer;
    EXPECT_EQ((co_await tunnels[0]->read(buffer)).error().code, Code::unavailable);
    EXPECT_EQ(session->open_streams(), 0U);
  });
}

// Its answers pile up: the session must stop reading or hang up, not grow.
TEST_F(H2HostileTest, APeerThatAsksAndNeverReadsIsNotReadFrom) {
  start_server({.streams_max = 8});
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await greet());
    const std::string question = h2::frame(h2::ping, 0, 0, "12345678");
    std::size_t sent = 0;
    bool stuck = false;
    // While it is told why (200 ms at most) its bytes are read and thrown away.
    while (!end && !stuck && sent < 1024 * 1024 * 1024) {
      auto write = with_deadline(peer->write(as_bytes(question)), Deadline::after(seconds(1)), "write");
      stuck = !co_await std::move(write);
      sent += question.size();
    }
    EXPECT_TRUE(stuck || end);
    session->close("test over");
    co_await await_end();
  });
}

TEST_F(H2HostileTest, AFloodOfSettingsEndsTheSession) {
  start_server({.resets_per_second_max = 500});
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await greet());
    for (int i = 0; i < 100'000 && co_await send(h2::frame(h2::settings, 0, 0, "")); ++i) {
    }
    co_await await_end();
    EXPECT_EQ(end->code, Code::exhausted);
  });
}

TEST_F(H2HostileTest, GoawayEndsTheSessionAndSaysWhy) {
  start_client();
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await send(h2::frame(h2::settings, 0, 0, "") +
                              h2::frame(h2::goaway, 0, 0, std::string("\0\0\0\0\0\0\0\x2", 8) + "going")));
    co_await await_end();
    EXPECT_EQ(end->code, Code::unavailable);
    EXPECT_EQ(end->message, "the peer ended the session (INTERNAL_ERROR: going)");
  });
}

TEST_F(H2HostileTest, AServerThatOpensStreamsIsCutOff) {
  start_client();
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await send(h2::frame(h2::settings, 0, 0, "") +
                              h2::frame(h2::headers, h2::end_headers | h2::end_stream, 2, h2::post("/"))));
    co_await await_end();
    EXPECT_EQ(end->code, Code::internal);
  });
}

TEST_F(H2HostileTest, ARefusalThatNeverEndsIsCutShort) {
  start_client();
  run([&]() -> Task<void> {
    spawn(executor(), "read", keep_reading());
    EXPECT_TRUE(co_await send(h2::frame(h2::settings, 0, 0, "")));
    spawn(executor(), "refuse", refuse_without_end());
    const auto refused = co_await session->connect("x:1", Deadline::after(seconds(20)));
    EXPECT_EQ(refused.error().code, Code::unavailable);
    EXPECT_EQ(refused.error().message, std::string(1024, 'n'));
    co_await settle();
    EXPECT_EQ(session->open_streams(), 0U);
    EXPECT_FALSE(end);
  });
}

}  // namespace
}  // namespace space
