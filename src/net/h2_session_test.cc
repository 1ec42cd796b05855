#include "net/h2_session.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <numeric>
#include <optional>

#include "base/bytes.h"

namespace space {
namespace {

namespace asio = boost::asio;
using std::chrono::seconds;

Deadline soon() {
  return Deadline::after(seconds(20));
}

std::string pattern(std::size_t from, std::size_t count) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>((from + i) * 2654435761U >> 13);
  return out;
}

Task<std::string> read_to_end(Stream& stream, std::size_t stop_at = SIZE_MAX) {
  std::string all;
  std::array<std::byte, 8192> buffer;
  while (all.size() < stop_at) {
    const auto count = co_await stream.read(buffer);
    if (!count) co_return "error: " + count.error().message;
    if (*count == 0) break;
    all += as_text(std::span(buffer).first(*count));
  }
  co_return all;
}

Task<void> echo(StreamPtr stream) {
  std::array<std::byte, 8192> buffer;
  while (true) {
    const auto count = co_await stream->read(buffer);
    if (!count || *count == 0) break;
    if (!co_await stream->write(std::span(buffer).first(*count))) co_return;
  }
  (void)co_await stream->finish();
}

// How something that waits ended, if it did.
struct Outcome {
  bool over = false;
  std::optional<Code> failure;
  bool well() const { return over && !failure; }
};

template <class T>
Outcome outcome_of(const Result<T>& result) {
  return {.over = true, .failure = result ? std::optional<Code>() : result.error().code};
}
Task<void> read_once(Stream& stream, Outcome& outcome) {
  std::array<std::byte, 16> buffer;
  outcome = outcome_of(co_await stream.read(buffer));
}
Task<void> write_until_error(Stream& stream, Outcome& outcome) {
  const std::string text(100'000, 'x');
  while (true) {
    const auto written = co_await stream.write(as_bytes(text));
    if (!written) co_return void(outcome = outcome_of(written));
  }
}
Task<void> wait_for_call(std::shared_ptr<H2Session> session, std::string path, Outcome& outcome) {
  outcome = outcome_of(co_await session->call({.path = path}, soon()));
}
Task<void> wait_for_connect(std::shared_ptr<H2Session> session, std::string authority, Outcome& outcome) {
  outcome = outcome_of(co_await session->connect(authority, soon()));
}
Task<void> take_tunnel(std::shared_ptr<H2Session> session, StreamPtr& tunnel) {
  tunnel = *co_await session->connect("keep:1", soon());
}
Task<void> write_forever(Stream& stream, std::size_t& accepted) {
  const std::string text = pattern(0, 4096);
  while (co_await stream.write(as_bytes(text))) accepted += text.size();
}
Task<void> send_pattern(Stream& stream, std::size_t total, int& ended) {
  for (std::size_t sent = 0, step = 1; sent < total; sent += step) {
    step = std::min<std::size_t>(sent % 70'001 + 1, total - sent);
    const std::string text = pattern(sent, step);
    if (!co_await stream.write(as_bytes(text))) break;
  }
  (void)co_await stream.finish();
  ++ended;
}
Task<void> check_pattern(Stream& stream, std::size_t total, std::size_t& intact, int& ended) {
  Bytes buffer(50'000);
  std::size_t at = 0;
  while (at < total) {
    const auto count = co_await stream.read(buffer);
    if (!count || *count == 0 || as_text(std::span(buffer).first(*count)) != pattern(at, *count)) break;
    at += *count;
    intact += *count;
  }
  EXPECT_EQ((co_await stream.read(buffer)).value_or(1), 0U);
  ++ended;
}
Task<void> send_all(Stream& stream, std::string text, int& sent) {
  (void)co_await stream.write(as_bytes(text));
  (void)co_await stream.finish();
  ++sent;
}
Task<void> echo_megabyte(H2Session& session, int& echoed) {
  const std::string text = pattern(1, 1024 * 1024);
  auto tunnel = co_await session.connect("echo:1", soon());
  EXPECT_TRUE(tunnel.has_value());
  int sent = 0;
  const Executor executor = co_await asio::this_coro::executor;
  spawn(executor, "send", send_all(**tunnel, text, sent));
  EXPECT_TRUE(co_await read_to_end(**tunnel) == text);
  while (sent == 0) co_await sleep_for(Millis(1));
  ++echoed;
}

// A client and a server session over an in-memory pipe. The server's tunnels, by authority: "echo:1" echoes,
// "keep:1" hands its stream to the test, "refuse:1" is not there, "hang:1" never decides.
class H2SessionTest : public testing::Test {
 protected:
  void start(H2Limits client_limits = {}, H2Limits server_limits = {}) {
    auto [near, far] = make_stream_pair(io.get_executor());
    client = H2Session::client(std::move(near), client_limits);
    server = H2Session::server(std::move(far), handlers(), server_limits);
    spawn(io.get_executor(), "client", keep_reason(client, client_end));
    spawn(io.get_executor(), "server", keep_reason(server, server_end));
  }

  // Runs `test` (a coroutine lambda that outlives the run) to its end.
  template <class F>
  void run(F test) {
    io.restart();  // it stops whenever it runs out of work
    bool done = false;
    spawn(io.get_executor(), "test", finish(test(), done));
    const auto limit = std::chrono::steady_clock::now() + seconds(60);
    while (!done && std::chrono::steady_clock::now() < limit) io.run_one_for(seconds(1));
    ASSERT_TRUE(done) << "the test did not end";
  }

  static Task<void> finish(Task<void> test, bool& done) {
    co_await std::move(test);
    done = true;
  }
  static Task<void> keep_reason(std::shared_ptr<H2Session> session, std::optional<Error>& reason) {
    reason = co_await session->run();
  }
  // Lets everything that can happen without input happen.
  static Task<void> settle() { co_await sleep_for(Millis(20)); }

  H2Handlers handlers() {
    return {.call = [this](CallRequest request) { return serve(std::move(request)); },
            .connect = [this](std::string authority) { return decide(std::move(authority)); }};
  }

  Task<CallResponse> serve(CallRequest request) {
    ++calls;
    if (request.path == "/slow") co_await sleep_for(Millis(50));
    if (request.path == "/hang") co_await sleep_for(seconds(3600));
    if (request.path == "/missing") co_return CallResponse{404, R"({"message":"no such call"})"};
    if (request.path == "/huge") co_return CallResponse{200, std::string(2 * 1024 * 1024, 'x')};
    co_return CallResponse{200, request.method + request.path + request.body};
  }

  Task<Result<H2Handlers::Tunnel>> decide(std::string authority) {
    if (authority == "refuse:1") co_return fail(Code::not_found, "nobody listens");
    if (authority == "hang:1") co_await sleep_for(seconds(3600));
    if (authority == "keep:1") co_return [this](StreamPtr stream) { return keep(std::move(stream)); };
    co_return echo;
  }
  Task<void> keep(StreamPtr stream) {
    kept.push_back(std::move(stream));
    co_return;
  }

  // A tunnel with both ends in the test's hands.
  Task<std::pair<StreamPtr, StreamPtr>> open_pair() {
    auto near = co_await client->connect("keep:1", soon());
    EXPECT_TRUE(near.has_value());
    while (kept.empty()) co_await sleep_for(Millis(1));
    auto far = std::move(kept.back());
    kept.pop_back();
    co_return std::pair{*std::move(near), std::move(far)};
  }

  asio::io_context io{1};
  std::shared_ptr<H2Session> client;
  std::shared_ptr<H2Session> server;
  std::optional<Error> client_end;
  std::optional<Error> server_end;
  std::vector<StreamPtr> kept;
  int calls = 0;
};

TEST_F(H2SessionTest, CallsCarryMethodPathAndBodyBothWays) {
  start();
  run([&]() -> Task<void> {
    auto small = co_await client->call({.method = "POST", .path = "/echo", .body = "{}"}, soon());
    EXPECT_TRUE(small.has_value());
    EXPECT_EQ(small->status, 200);
    EXPECT_EQ(small->body, "POST/echo{}");
    auto empty = co_await client->call({.method = "POST", .path = "/none", .body = {}}, soon());
    EXPECT_EQ(empty->body, "POST/none");
    const std::string big = pattern(0, 1000 * 1000);
    auto large = co_await client->call({.method = "POST", .path = "/", .body = big}, soon());
    EXPECT_TRUE(large.has_value());
    EXPECT_EQ(large->body, "POST/" + big);
    auto missing = co_await client->call({.method = "POST", .path = "/missing", .body = {}}, soon());
    EXPECT_EQ(missing->status, 404);
    EXPECT_EQ(client->open_streams(), 0U);
    EXPECT_EQ(server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, ATunnelEchoesAndEndsInBothDirections) {
  start();
  run([&]() -> Task<void> {
    auto tunnel = co_await client->connect("echo:1", soon());
    EXPECT_TRUE(tunnel.has_value());
    EXPECT_TRUE((co_await (*tunnel)->write(as_bytes("hello"))).has_value());
    EXPECT_TRUE((co_await (*tunnel)->finish()).has_value());
    EXPECT_EQ(co_await read_to_end(**tunnel), "hello");
    EXPECT_EQ(client->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, ARefusalCarriesCodeAndMessage) {
  start();
  run([&]() -> Task<void> {
    auto tunnel = co_await client->connect("refuse:1", soon());
    EXPECT_FALSE(tunnel.has_value());
    EXPECT_EQ(tunnel.error().code, Code::not_found);
    EXPECT_EQ(tunnel.error().message, "nobody listens");
    co_await settle();
    EXPECT_EQ(client->open_streams(), 0U);
    EXPECT_EQ(server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, WhatIsWrittenBeforeTheAnswerFollowsTheRequest) {
  start();
  run([&]() -> Task<void> {
    auto tunnel = co_await client->open_tunnel("echo:1", soon());
    EXPECT_TRUE(tunnel.has_value());
    EXPECT_EQ(server->open_streams(), 0U) << "nothing was asked yet";
    EXPECT_TRUE((co_await tunnel->stream->write(as_bytes("hello"))).has_value());
    EXPECT_TRUE((co_await tunnel->stream->finish()).has_value());
    EXPECT_EQ(co_await read_to_end(*tunnel->stream), "hello");
    EXPECT_TRUE((co_await tunnel->accepted(soon())).has_value());
    EXPECT_EQ(client->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, AnAnswerHeldBackLeavesSoon) {
  start();
  run([&]() -> Task<void> {
    auto tunnel = co_await client->open_tunnel("keep:1", soon());
    EXPECT_TRUE((co_await tunnel->stream->write(as_bytes("hello"))).has_value());
    EXPECT_TRUE((co_await tunnel->accepted(soon())).has_value()) << "the server's side says nothing";
  });
}

TEST_F(H2SessionTest, ARefusalReachesAWriterThatDidNotWait) {
  start();
  run([&]() -> Task<void> {
    {
      auto tunnel = co_await client->open_tunnel("refuse:1", soon());
      EXPECT_TRUE((co_await tunnel->stream->write(as_bytes("lost"))).has_value());
      const auto accepted = co_await tunnel->accepted(soon());
      EXPECT_FALSE(accepted.has_value());
      EXPECT_EQ(accepted.error().code, Code::not_found);
      EXPECT_EQ(accepted.error().message, "nobody listens");
      std::array<std::byte, 64> buffer;
      const auto read = co_await tunnel->stream->read(buffer);
      EXPECT_FALSE(read.has_value()) << "the reason is not the tunnel's content";
      EXPECT_EQ(read.error().code, Code::not_found);
      std::string more(1024 * 1024, 'x');
      EXPECT_FALSE((co_await tunnel->stream->write(as_bytes(more))).has_value());
    }
    co_await settle();
    EXPECT_EQ(client->open_streams(), 0U);
    EXPECT_EQ(server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, ATunnelThatIsGivenUpBeforeItsAnswerLeavesNothing) {
  start();
  run([&]() -> Task<void> {
    {
      auto tunnel = co_await client->open_tunnel("hang:1", soon());
      EXPECT_EQ((co_await tunnel->accepted(Deadline::after(Millis(5)))).error().code, Code::deadline);
    }
    co_await settle();
    EXPECT_EQ(client->open_streams(), 0U);
    EXPECT_EQ(server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, APingComesBack) {
  start();
  run([&]() -> Task<void> {
    const auto answer = co_await client->ping(soon());
    EXPECT_TRUE(answer.has_value());
    EXPECT_GT(answer->count(), 0);
  });
}

// Held, nothing is on its way: what was written arrives once it is released.
TEST_F(H2SessionTest, AHeldSessionSendsNothingUntilItIsReleased) {
  start();
  run([&]() -> Task<void> {
    auto [near, far] = co_await open_pair();
    std::array<std::byte, 64> buffer;
    EXPECT_TRUE((co_await near->write(as_bytes("before"))).has_value());
    EXPECT_EQ(*co_await far->read(buffer), 6U);
    EXPECT_TRUE(co_await client->hold(soon()));
    Outcome read, call;
    std::size_t sent = 0;
    spawn(io.get_executor(), "write", write_forever(*near, sent));
    spawn(io.get_executor(), "read", read_once(*far, read));
    spawn(io.get_executor(), "call", wait_for_call(client, "/echo", call));
    EXPECT_FALSE((co_await client->ping(Deadline::after(Millis(20)))).has_value());
    EXPECT_FALSE(read.over || call.over);
    EXPECT_TRUE((co_await far->write(as_bytes("the other way"))).has_value());
    EXPECT_EQ(*co_await near->read(buffer), 13U);
    client->release();
    while (!read.over || !call.over) co_await settle();
    EXPECT_TRUE(read.well() && call.well());
    EXPECT_TRUE(co_await client->hold(soon())) << "again, in the midst of much";
    client->release();
    client->close("test over");
    EXPECT_FALSE(co_await client->hold(soon()));
    co_await settle();
  });
}

TEST_F(H2SessionTest, SixtyFourMegabytesArriveUnchangedBothWaysAtOnce) {
  constexpr std::size_t total = 64 * 1024 * 1024;
  start();
  run([&]() -> Task<void> {
    auto [near, far] = co_await open_pair();
    int ended = 0;
    spawn(io.get_executor(), "near", send_pattern(*near, total, ended));
    spawn(io.get_executor(), "far", send_pattern(*far, total, ended));
    std::size_t intact = 0;
    spawn(io.get_executor(), "check", check_pattern(*near, total, intact, ended));
    spawn(io.get_executor(), "check", check_pattern(*far, total, intact, ended));
    while (ended < 4) co_await sleep_for(Millis(1));
    EXPECT_EQ(intact, 2 * total);
    EXPECT_EQ(client->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, StalledReadersHoldBackTheirOwnWritersAndNobodyElse) {
  const H2Limits limits;
  constexpr std::size_t stalled = 48;  // their windows together exceed the session's
  static_assert(stalled * 256 * 1024 > 8 * 1024 * 1024);
  start();
  run([&]() -> Task<void> {
    std::vector<std::pair<StreamPtr, StreamPtr>> pairs;
    std::vector<std::size_t> accepted(stalled);
    for (std::size_t i = 0; i < stalled; ++i) {
      pairs.push_back(co_await open_pair());
      spawn(io.get_executor(), "stuck", write_forever(*pairs[i].first, accepted[i]));
    }
    std::size_t before = 1;
    for (std::size_t now = 0; now != before; now = std::accumulate(accepted.begin(), accepted.end(), 0UZ)) {
      before = now;
      co_await settle();
    }
    for (const std::size_t bytes : accepted) {
      EXPECT_GE(bytes, limits.tunnel_window_bytes);
      EXPECT_LE(bytes, limits.tunnel_window_bytes + 128 * 1024);
    }

    int echoed = 0;
    for (int i = 0; i < 20; ++i) spawn(io.get_executor(), "echo", echo_megabyte(*client, echoed));
    while (echoed < 20) co_await sleep_for(Millis(1));
    EXPECT_TRUE((co_await client->call({.path = "/still"}, soon())).has_value());

    EXPECT_EQ((co_await read_to_end(*pairs[7].second, 1024 * 1024)).substr(0, 4096), pattern(0, 4096));
    EXPECT_GE(accepted[7], 1024 * 1024U);
    EXPECT_LE(accepted[8], limits.tunnel_window_bytes + 128 * 1024);
    client->close("test over");
    co_await settle();
  });
}

TEST_F(H2SessionTest, OneDirectionEndsAndTheOtherGoesOn) {
  start();
  run([&]() -> Task<void> {
    auto [near, far] = co_await open_pair();
    EXPECT_TRUE((co_await near->write(as_bytes("last words"))).has_value());
    EXPECT_TRUE((co_await near->finish()).has_value());
    EXPECT_EQ(co_await read_to_end(*far), "last words");
    EXPECT_FALSE((co_await near->write(as_bytes("more"))).has_value());
    EXPECT_TRUE((co_await far->write(as_bytes("the answer"))).has_value());
    EXPECT_TRUE((co_await far->finish()).has_value());
    EXPECT_EQ(co_await read_to_end(*near), "the answer");
    co_await settle();
    EXPECT_EQ(client->open_streams() + server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, AResetOnEitherSideFailsBothDirectionsOfTheOther) {
  start();
  run([&]() -> Task<void> {
    for (const bool client_resets : {true, false}) {
      auto [near, far] = co_await open_pair();
      Stream& resetting = client_resets ? *near : *far;
      Stream& other = client_resets ? *far : *near;
      EXPECT_TRUE((co_await resetting.write(as_bytes("lost"))).has_value());
      Outcome read;
      spawn(io.get_executor(), "read", read_once(resetting, read));
      co_await settle();
      resetting.reset();
      co_await settle();
      EXPECT_EQ(read.failure, Code::unavailable);
      std::array<std::byte, 16> buffer;
      EXPECT_EQ((co_await other.read(buffer)).error().code, Code::unavailable);
      EXPECT_EQ((co_await other.write(as_bytes("x"))).error().code, Code::unavailable);
      EXPECT_EQ((co_await other.finish()).error().code, Code::unavailable);
      EXPECT_EQ((co_await resetting.write(as_bytes("x"))).error().code, Code::unavailable);
      EXPECT_EQ(client->open_streams() + server->open_streams(), 0U);
    }
    EXPECT_FALSE(client->closed());
  });
}

TEST_F(H2SessionTest, AStreamDestroyedUnfinishedIsReset) {
  start();
  run([&]() -> Task<void> {
    auto [near, far] = co_await open_pair();
    near.reset();
    EXPECT_EQ(co_await read_to_end(*far), "error: the peer reset the stream (CANCEL)");
    EXPECT_EQ(client->open_streams() + server->open_streams(), 0U);
  });
}

TEST_F(H2SessionTest, WhatWasFinishedArrivesThoughItsStreamIsDestroyed) {
  start();
  run([&]() -> Task<void> {
    auto [near, far] = co_await open_pair();
    const std::string text = pattern(0, 60'000);
    EXPECT_TRUE((co_await near->write(as_bytes(text))).has_value());
    EXPECT_TRUE((co_await near->finish()).has_value());
    near.reset();
    EXPECT_EQ(co_await read_to_end(*far), text);
    EXPECT_FALSE((co_await far->write(as_bytes("nobody reads this"))).has_value());
    EXPECT_EQ(client->open_streams() + server->open_streams(), 0U);
  });
}

// Everything that can wait, waiting; then the session ends in one of three ways.
TEST_F(H2SessionTest, TheEndOfTheSessionFailsAllThatWaits) {
  for (const int way : {0, 1, 2}) {
    start();
    run([&]() -> Task<void> {
      auto [near, far] = co_await open_pair();
      auto [full, unread] = co_await open_pair();
      Outcome call, connect, read, write, remote_read;
      spawn(io.get_executor(), "call", wait_for_call(client, "/hang", call));
      spawn(io.get_executor(), "connect", wait_for_connect(client, "hang:1", connect));
      spawn(io.get_executor(), "read", read_once(*near, read));
      spawn(io.get_executor(), "read", read_once(*far, remote_read));
      spawn(io.get_executor(), "write", write_until_error(*full, write));
      co_await settle();
      for (const Outcome* waiting : {&call, &connect, &read, &write, &remote_read})
        EXPECT_FALSE(waiting->over);
      if (way == 0) client->close("enough");
      if (way == 1) server->close("enough");
      if (way == 2) client.reset();  // run() still holds it
      if (way == 2) server->close("enough");
      co_await settle();
      for (const Outcome* waiting : {&call, &connect, &read, &write, &remote_read})
        EXPECT_EQ(waiting->failure, Code::unavailable);
      EXPECT_TRUE(client_end && server_end);
      EXPECT_EQ((way == 0 ? client_end : server_end)->message, "enough");
      if (client) {
        EXPECT_TRUE(client->closed());
        EXPECT_EQ((co_await client->call({.path = "/"}, soon())).error().code, Code::unavailable);
        EXPECT_EQ((co_await client->connect("echo:1", soon())).error().code, Code::unavailable);
        EXPECT_EQ((co_await client->ping(soon())).error().code, Code::unavailable);
      }
    });
    client_end.reset();
    server_end.reset();
  }
}

TEST_F(H2SessionTest, StreamsAndSessionsMayBeDestroyedInAnyOrder) {
  for (const bool stream_first : {true, false}) {
    for (const bool ran : {true, false}) {
      StreamPtr survivor;
      {
        asio::io_context own{1};
        auto [near_end, far_end] = make_stream_pair(own.get_executor());
        auto near_session = H2Session::client(std::move(near_end));
        auto far_session = H2Session::server(std::move(far_end), handlers());
        std::optional<Error> ignored;
        std::optional<Error> ignored_too;
        if (ran) {
          spawn(own.get_executor(), "client", keep_reason(near_session, ignored));
          spawn(own.get_executor(), "server", keep_reason(far_session, ignored_too));
          spawn(own.get_executor(), "connect", take_tunnel(near_session, survivor));
          while (!survivor) own.run_one();
        }
        if (stream_first) survivor.reset();
        near_session.reset();
        far_session.reset();
        // The loop goes with coroutines of both sessions still waiting in it.
      }
      if (survivor) survivor->reset();
      kept.clear();
    }
  }
}

TEST_F(H2SessionTest, ADeadlineOrACancelledCallResetsItsStream) {
  start();
  run([&]() -> Task<void> {
    const auto late = co_await client->call({.path = "/hang"}, Deadline::after(Millis(5)));
    EXPECT_EQ(late.error().code, Code::deadline);
    const auto undecided = co_await client->connect("hang:1", Deadline::after(Millis(5)));
    EXPECT_EQ(undecided.error().code, Code::deadline);
    const auto cancelled =
        co_await with_deadline(client->call({.path = "/hang"}, soon()), Deadline::after(Millis(5)), "x");
    EXPECT_EQ(cancelled.error().code, Code::deadline);
    const auto cut =
        co_await with_deadline(client->connect("hang:1", soon()), Deadline::after(Millis(5)), "x");
    EXPECT_EQ(cut.error().code, Code::deadline);
    co_await settle();
    EXPECT_EQ(client->open_streams() + server->open_streams(), 0U);
    EXPECT_TRUE((co_await client->call({.path = "/"}, soon())).has_value());
  });
}

TEST_F(H2SessionTest, BodiesBeyondTheLimitFailTheirCallOnly) {
  start();
  run([&]() -> Task<void> {
    EXPECT_EQ((co_await client->call({.path = "/huge"}, soon())).error().code, Code::exhausted);
    const auto refused = co_await client->call({.path = "/", .body = std::string(2 << 20, 'x')}, soon());
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    const auto long_path = co_await client->call({.path = "/" + std::string(20'000, 'x')}, soon());
    EXPECT_EQ(long_path.error().code, Code::invalid_argument);
    EXPECT_TRUE((co_await client->call({.path = "/"}, soon())).has_value());
  });
}

TEST_F(H2SessionTest, CallsBeyondTheStreamLimitWaitForTheirTurn) {
  start({}, {.streams_max = 3});
  run([&]() -> Task<void> {
    EXPECT_TRUE((co_await client->ping(soon())).has_value());  // the server's limits are known
    std::array<Outcome, 12> outcomes;
    for (Outcome& outcome : outcomes)
      spawn(io.get_executor(), "call", wait_for_call(client, "/slow", outcome));
    co_await sleep_for(Millis(25));
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(client->open_streams(), 3U);
    while (!std::ranges::all_of(outcomes, [](const Outcome& o) { return o.over; })) co_await settle();
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.well());
    EXPECT_EQ(calls, 12);

    std::array<Outcome, 3> held;
    for (Outcome& outcome : held) spawn(io.get_executor(), "call", wait_for_call(client, "/hang", outcome));
    const auto late = co_await client->call({.path = "/"}, Deadline::after(Millis(10)));
    EXPECT_EQ(late.error().code, Code::deadline);
    client->close("test over");
    co_await settle();
  });
}

TEST(H2Status, EveryCodeCrossesTheBoundaryAndComesBack) {
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i) {
    const auto code = static_cast<Code>(i);
    EXPECT_EQ(code_of_http_status(http_status_of(code)), code);
  }
  EXPECT_EQ(code_of_http_status(503), Code::unavailable);
  EXPECT_EQ(code_of_http_status(418), Code::internal);
}

}  // namespace
}  // namespace space
