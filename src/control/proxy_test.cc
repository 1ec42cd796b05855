// The data plane through the edge, with a fake node: routing per request, streaming, resets, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

class ProxyTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }

  // Opens /forever and reads its first piece.
  Task<bool> open_stream(http::ClientConnection& connection, std::string id) {
    (void)co_await connection.write_request(TestPlane::to_sandbox("GET", "/forever", id));
    (void)co_await connection.end_request();
    if (!co_await connection.read_response(Deadline::after(Millis(5000)))) co_return false;
    std::byte piece[16];
    const auto n = co_await connection.body().read(piece);
    co_return n && *n == 5;
  }
  static Task<Result<std::size_t>> read_more(http::ClientConnection& connection) {
    std::byte piece[16];
    co_return co_await connection.body().read(piece);
  }

  TestPlane plane;
};

TEST_F(ProxyTest, OnePipelinedConnectionAlternatesSandboxesAndApi) {
  const std::string a = plane.create();
  const std::string b = plane.create();
  http::ClientConnection connection(plane.dial());
  const auto pipeline = [](TestPlane& p, http::ClientConnection& c, std::string first,
                           std::string second) -> Task<std::vector<Answer>> {
    std::vector<http::RequestHead> heads;
    for (int i = 0; i < 5; ++i) {
      for (const std::string& id : {first, second}) {
        heads.push_back(TestPlane::to_sandbox("GET", "/who", id));
        heads.back().fields.add("X-Access-Token", "token of " + id);
      }
      heads.push_back(TestPlane::request("GET", "/sandboxes/" + first, ""));
      heads.back().fields.add("X-API-Key", p.api_key);
    }
    for (const auto& head : heads) {
      (void)co_await c.write_request(head);
      (void)co_await c.end_request();
    }
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < heads.size(); ++i) answers.push_back(co_await read_answer(c));
    co_return answers;
  };
  const auto answers = plane.run(pipeline(plane, connection, a, b));
  ASSERT_EQ(answers.size(), 15U);
  for (std::size_t i = 0; i < answers.size(); i += 3) {
    EXPECT_EQ(answers[i].body, a + " token of " + a);
    EXPECT_EQ(answers[i + 1].body, b + " token of " + b);
    EXPECT_EQ(*require_text(answers[i + 2].json(), "sandboxID"), a);
  }
}

TEST_F(ProxyTest, BodiesStreamBothWays) {
  const std::string id = plane.create();
  auto head = TestPlane::to_sandbox("POST", "/echo", id);
  head.chunked = true;
  std::string body(5 * 1024 * 1024, 'x');
  for (std::size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 26);
  http::ClientConnection connection(plane.dial());
  Result<void> sent;
  spawn(plane.executor(), "sender",
        [](http::ClientConnection& c, http::RequestHead h, const std::string& content,
           Result<void>& out) -> Task<void> {
          (void)co_await c.write_request(h);
          out = co_await c.write_body(as_bytes(content));
          (void)co_await c.end_request();
        }(connection, std::move(head), body, sent));
  const Answer answer = plane.run(read_answer(connection));
  EXPECT_TRUE(sent);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body == body);
}

TEST_F(ProxyTest, AKillBreaksTheStreamInsteadOfEndingIt) {
  const std::string id = plane.create();
  http::ClientConnection connection(plane.dial());
  ASSERT_TRUE(plane.run(open_stream(connection, id)));
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_FALSE(plane.run(read_more(connection)));
  const Answer health = plane.send(TestPlane::to_sandbox("GET", "/health", id));
  EXPECT_EQ(health.status, 502);
  EXPECT_EQ(health.body,
            fmt::format(R"({{"sandboxId":"{}","message":"The sandbox was not found","code":502}})", id));
  EXPECT_EQ(health.fields.get("Content-Type"), "application/json; charset=utf-8");
}

TEST_F(ProxyTest, ALostNodeBreaksTheStreamToo) {
  const std::string id = plane.create();
  http::ClientConnection connection(plane.dial());
  ASSERT_TRUE(plane.run(open_stream(connection, id)));
  plane.lose_node();
  EXPECT_FALSE(plane.run(read_more(connection)));
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 502);
  plane.connect_node();
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 200);
}

TEST_F(ProxyTest, AClientThatLeavesResetsItsTunnel) {
  const std::string id = plane.create();
  {
    http::ClientConnection connection(plane.dial());
    ASSERT_TRUE(plane.run(open_stream(connection, id)));
    EXPECT_EQ(plane.node().tunnels_open, 1);
  }
  plane.run_until([&] { return plane.node().tunnels_open == 0; });
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 200);
}

TEST_F(ProxyTest, AnAnswerBeforeTheBodyIsReadArrives) {
  const std::string id = plane.create();
  auto head = TestPlane::to_sandbox("POST", "/early", id);
  head.content_length = 10;
  const Answer answer = plane.send(head, "0123456789");
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "too much");
}

TEST_F(ProxyTest, Upgrades) {
  const std::string id = plane.create();
  auto head = TestPlane::to_sandbox("GET", "/socket", id, 8080);
  head.fields.add("Connection", "Upgrade");
  head.fields.add("Upgrade", "websocket");
  http::ClientConnection connection(plane.dial());
  const auto talk = [](http::ClientConnection& c, http::RequestHead h) -> Task<std::string> {
    (void)co_await c.write_request(h);
    (void)co_await c.end_request();
    const auto response = co_await c.read_response(Deadline::after(Millis(5000)));
    if (!response || response->head.status != 101) co_return "no upgrade";
    auto raw = c.release();
    (void)co_await raw->write(as_bytes("ping"));
    std::byte piece[16];
    const auto n = co_await raw->read(piece);
    (void)co_await raw->finish();
    co_return n ? std::string(as_text(std::span(piece).first(*n))) : "broken";
  };
  EXPECT_EQ(plane.run(talk(connection, head)), "ping");
  plane.run_until([&] { return plane.node().tunnels_open == 0; });
}

http::RequestHead tunnel_request(const std::string& id, const std::string& port, const std::string& key) {
  auto head = TestPlane::request("GET", "/v1/sandboxes/" + id + "/tunnel?port=" + port, "");
  head.fields.add("X-API-Key", key);
  head.fields.add("Connection", "Upgrade");
  head.fields.add("Upgrade", "tcp");
  return head;
}

// The guest's server is spoken to byte by byte; each direction ends by itself.
TEST_F(ProxyTest, ATunnelCarriesRawBytes) {
  const std::string id = plane.create();
  http::ClientConnection connection(plane.dial());
  const auto talk = [](http::ClientConnection& c, http::RequestHead head) -> Task<std::string> {
    (void)co_await c.write_request(head);
    (void)co_await c.end_request();
    const auto response = co_await c.read_response(Deadline::after(Millis(5000)));
    if (!response || response->head.status != 101) co_return "no tunnel";
    auto raw = c.release();
    (void)co_await raw->write(
        as_bytes("GET /who HTTP/1.1\r\nX-Access-Token: t\r\nConnection: close\r\n\r\n"));
    (void)co_await raw->finish();
    std::string text;
    std::byte piece[256];
    while (true) {
      const auto n = co_await raw->read(piece);
      if (!n || *n == 0) co_return text;
      text += as_text(std::span(piece).first(*n));
    }
  };
  EXPECT_THAT(plane.run(talk(connection, tunnel_request(id, "8080", plane.api_key))), HasSubstr(id + " t"));
  plane.run_until([&] { return plane.node().tunnels_open == 0; });
}

TEST_F(ProxyTest, ATunnelIsRefusedWithTheReason) {
  const std::string id = plane.create();
  const auto status = [&](http::RequestHead head) { return plane.send(std::move(head)).status; };
  EXPECT_EQ(status(tunnel_request(id, "8080", "e2b_wrong")), 401);
  EXPECT_EQ(status(tunnel_request("i0000000000000000000", "8080", plane.api_key)), 404);
  EXPECT_EQ(status(tunnel_request(id, "49983", plane.api_key)), 403);
  EXPECT_EQ(status(tunnel_request(id, "9999", plane.api_key)), 502);
  for (const char* port : {"", "0", "65536", "80a", "host:80"})
    EXPECT_EQ(status(tunnel_request(id, port, plane.api_key)), 400) << port;
  auto plain = TestPlane::request("GET", "/v1/sandboxes/" + id + "/tunnel?port=8080", "");
  plain.fields.add("X-API-Key", plane.api_key);
  EXPECT_EQ(status(plain), 426);
}

TEST_F(ProxyTest, ClosedPorts) {
  const std::string id = plane.create();
  const Answer closed = plane.send(TestPlane::to_sandbox("GET", "/", id, 9999));
  EXPECT_EQ(closed.status, 502);
  EXPECT_EQ(
      closed.body,
      fmt::format(
          R"({{"sandboxId":"{}","message":"The sandbox is running but port is not open","port":9999,"code":502}})",
          id));
  plane.node().refusals_left = 2;
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id, 7000)).status, 200);
}

TEST_F(ProxyTest, UnknownAndInternal) {
  const Answer unknown = plane.send(TestPlane::to_sandbox("GET", "/health", "inobody"));
  EXPECT_EQ(unknown.status, 502);
  EXPECT_EQ(unknown.message(), "The sandbox was not found");
  const std::string id = plane.create();
  const Answer internal = plane.send(TestPlane::to_sandbox("POST", "/init", id));
  EXPECT_EQ(internal.status, 404);
  EXPECT_EQ(*require_text(internal.json(), "path"), "/init");
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("POST", "/init", id, 8080)).body, "nothing here");
}

TEST_F(ProxyTest, TrafficTokens) {
  const Answer created =
      plane.api("POST", "/v2/sandboxes", R"({"templateID":"base","network":{"allowPublicTraffic":false}})");
  const std::string id = *require_text(created.json(), "sandboxID");
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 200);
  const Answer missing = plane.send(TestPlane::to_sandbox("GET", "/who", id, 8080));
  EXPECT_EQ(missing.status, 403);
  EXPECT_THAT(missing.message(), HasSubstr("is missing"));
  auto head = TestPlane::to_sandbox("GET", "/who", id, 8080);
  head.fields.add("e2b-traffic-access-token", "wrong");
  EXPECT_THAT(plane.send(head).message(), HasSubstr("is invalid"));
  head.fields.set("e2b-traffic-access-token", *require_text(created.json(), "trafficAccessToken"));
  EXPECT_EQ(plane.send(head).status, 200);
}

}  // namespace
}  // namespace space::control
