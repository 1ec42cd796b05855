#include "net/h2_session.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <boost/asio/io_context.hpp>
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

}  // namespace
}  // namespace space
