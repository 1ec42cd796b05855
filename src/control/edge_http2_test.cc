// The edge over HTTP/2: one connection, every stream routed, authorised and broken off by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "control/test_plane.h"
#include "net/h2_test_client.h"

namespace space::control {
namespace {

namespace h2 = h2_test;

class EdgeHttp2Test : public testing::Test {
 protected:
  void SetUp() override {
    plane.connect_node();
    client.emplace(plane.dial());
    spawn(plane.executor(), "client", client->run());
  }
  h2::HeaderList to_sandbox(std::string method, std::string path, std::string id, int port = 49983) const {
    return h2::with(h2::request(std::move(method), std::move(path), "127.0.0.1:3000"),
                    {{"e2b-sandbox-id", std::move(id)}, {"e2b-sandbox-port", std::to_string(port)}});
  }
  h2::HeaderList api(std::string method, std::string path) const {
    return h2::with(h2::request(std::move(method), std::move(path), "127.0.0.1:3000"),
                    {{"x-api-key", plane.api_key}, {"content-type", "application/json"}});
  }
  h2::Client::Stream ask(const h2::HeaderList& headers, std::string_view body = "") {
    const auto id = client->send(headers, body);
    plane.run_until([&] { return (*client)[id].over() || client->closed; });
    return (*client)[id];
  }
  // A stream of /forever whose first piece has come.
  std::int32_t open_stream(const std::string& sandbox) {
    const auto id = client->send(to_sandbox("GET", "/forever", sandbox));
    plane.run_until([&] { return (*client)[id].body == "first"; });
    return id;
  }

  TestPlane plane;
  std::optional<h2::Client> client;
};

TEST_F(EdgeHttp2Test, OneConnectionCarriesTheApiAndManySandboxes) {
  const auto created = ask(api("POST", "/sandboxes"), R"({"templateID":"base"})");
  ASSERT_EQ(created.status, 201) << created.body;
  const std::string a = *require_text(*parse_json_object(created.body, "answer"), "sandboxID");
  const std::string b = plane.create();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 20; ++i) {
    const std::string& sandbox = i % 2 == 0 ? a : b;
    ids.push_back(client->send(
        h2::with(to_sandbox("GET", "/who", sandbox), {{"x-access-token", "token " + std::to_string(i)}})));
    ids.push_back(client->send(api("GET", "/sandboxes/" + sandbox)));
  }
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    const std::string& sandbox = i / 2 % 2 == 0 ? a : b;
    plane.run_until([&] { return (*client)[ids[i]].over() && (*client)[ids[i + 1]].over(); });
    EXPECT_EQ((*client)[ids[i]].body, fmt::format("{} token {}", sandbox, i / 2));
    EXPECT_THAT((*client)[ids[i + 1]].body, testing::HasSubstr(sandbox));
  }
}

TEST_F(EdgeHttp2Test, EveryStreamIsAuthorisedByItself) {
  EXPECT_EQ(ask(api("GET", "/v2/sandboxes")).status, 200);
  EXPECT_EQ(ask(h2::request("GET", "/v2/sandboxes")).status, 401);
  EXPECT_EQ(ask(h2::with(h2::request("GET", "/v2/sandboxes"), {{"x-api-key", "e2b_wrong"}})).status, 401);
  const auto unknown = ask(to_sandbox("GET", "/health", "inobody"));
  EXPECT_EQ(unknown.status, 502);
  EXPECT_FALSE(unknown.fields.get("connection"));
}

TEST_F(EdgeHttp2Test, TheAuthorityRoutes) {
  const std::string id = plane.create();
  const auto by_host = ask(h2::request("GET", "/who", "8080-" + id + ".sandbox.test"));
  EXPECT_EQ(by_host.body, id + " ");
  EXPECT_EQ(
      ask(h2::with(h2::request("GET", "/who", "8080-" + id + ".sandbox.test"), {{"host", "127.0.0.1:3000"}}))
          .status,
      400);
}

TEST_F(EdgeHttp2Test, BodiesStreamBothWays) {
  const std::string id = plane.create();
  std::string body(5 * 1024 * 1024, 'x');
  for (std::size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 26);
  const auto answer = ask(to_sandbox("POST", "/echo", id), body);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body == body);
  const auto early = ask(to_sandbox("POST", "/early", id), body);
  EXPECT_EQ(early.status, 413);
  EXPECT_EQ(early.body, "too much");
}

TEST_F(EdgeHttp2Test, AKillResetsTheStreamsOfItsSandboxOnly) {
  const std::string a = plane.create();
  const std::string b = plane.create();
  const auto first = open_stream(a);
  const auto second = open_stream(b);
  EXPECT_EQ(ask(api("DELETE", "/sandboxes/" + a)).status, 204);
  plane.run_until([&] { return (*client)[first].over(); });
  EXPECT_EQ((*client)[first].reset, NGHTTP2_INTERNAL_ERROR);
  EXPECT_FALSE((*client)[first].ended);
  EXPECT_EQ(ask(to_sandbox("GET", "/who", b)).status, 200);
  EXPECT_FALSE((*client)[second].over());
  EXPECT_EQ(ask(to_sandbox("GET", "/health", a)).status, 502);
}

TEST_F(EdgeHttp2Test, ACancelledStreamResetsItsTunnel) {
  const std::string id = plane.create();
  const auto stream = open_stream(id);
  EXPECT_EQ(plane.node().tunnels_open, 1);
  client->reset(stream);
  plane.run_until([&] { return plane.node().tunnels_open == 0; });
  EXPECT_EQ(ask(to_sandbox("GET", "/who", id)).status, 200);
}

TEST_F(EdgeHttp2Test, ThereAreNoUpgrades) {
  const std::string id = plane.create();
  EXPECT_EQ(ask(api("GET", "/v1/sandboxes/" + id + "/tunnel?port=8080")).status, 426);
  const auto refused = ask(h2::with(to_sandbox("GET", "/socket", id, 8080), {{"upgrade", "websocket"}}));
  EXPECT_TRUE(refused.status == 400 || refused.reset);
  EXPECT_EQ(ask({{":method", "CONNECT"}, {":authority", "localhost:22"}}).status, 400);
}

}  // namespace
}  // namespace space::control
