// Logs, figures and activity through the API, with a fake node; and the queries of logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "control/log_query.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ObservationTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }
  TestPlane plane;
};

TEST_F(ObservationTest, LogsInBothForms) {
  const std::string id = plane.create();
  plane.node().logs[id] = {JsonObject{{"sequence", 1'700'000'000'000'007},
                                      {"level", "info"},
                                      {"message", "sandbox started"},
                                      {"fields", {{"ms", "12"}}}},
                           JsonObject{{"sequence", 1'700'000'001'000'000},
                                      {"level", "error"},
                                      {"message", "it \"died\""},
                                      {"fields", JsonObject()}}};
  EXPECT_EQ(
      plane.api("GET", "/v2/sandboxes/" + id + "/logs").body,
      R"({"logs":[{"timestamp":"2023-11-14T22:13:20.000007Z","message":"sandbox started","level":"info",)"
      R"("fields":{"ms":"12"}},{"timestamp":"2023-11-14T22:13:21.000000Z","message":"it \"died\"",)"
      R"("level":"error","fields":{}}]})");
  const auto v1 = plane.api("GET", "/sandboxes/" + id + "/logs").json();
  EXPECT_EQ(to_text(v1.at("logs").as_array().at(0)),
            R"({"timestamp":"2023-11-14T22:13:20.000007Z","line":"sandbox started ms=\"12\""})");
  EXPECT_EQ(v1.at("logEntries").as_array().size(), 2U);
}

TEST_F(ObservationTest, TheNodeIsAskedForWhatTheQuerySays) {
  const std::string id = plane.create();
  plane.api("GET", "/v2/sandboxes/" + id + "/logs?cursor=1700000000000&limit=5&level=warn&search=a%20b");
  EXPECT_EQ(to_text(plane.node().log_request),
            R"({"id":")" + id +
                R"(","limit":5,"backward":false,"after":1699999999999999,"level":"warn","search":"a b"})");
  plane.api("GET", "/v2/sandboxes/" + id + "/logs?after=2023-11-14T22:13:20.000007Z&cursor=5&wait_ms=9");
  EXPECT_EQ(to_text(plane.node().log_request),
            R"({"id":")" + id + R"(","limit":1000,"backward":false,"after":1700000000000007,"wait_ms":9})");
  plane.api("GET", "/v2/sandboxes/" + id + "/logs?direction=backward&cursor=7");
  EXPECT_EQ(to_text(plane.node().log_request),
            R"({"id":")" + id + R"(","limit":1000,"backward":true,"before":8000})");
  plane.api("GET", "/sandboxes/" + id + "/logs?start=0&direction=backward");
  EXPECT_EQ(to_text(plane.node().log_request),
            R"({"id":")" + id + R"(","limit":1000,"backward":false,"after":0})");
}

TEST_F(ObservationTest, LogsOutliveTheSandboxAndBelongToItsTeam) {
  const std::string id = plane.create();
  plane.node().logs[id] = {JsonObject{{"sequence", 5}, {"message", "sandbox deleted"}}};
  ASSERT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_THAT(plane.api("GET", "/v2/sandboxes/" + id + "/logs").body, HasSubstr("sandbox deleted"));
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes/i0000000000000000000/logs").status, 404);
  auto stranger = TestPlane::request("GET", "/v2/sandboxes/" + id + "/logs", "");
  EXPECT_EQ(plane.send(stranger).status, 401);
}

TEST_F(ObservationTest, WrongQueriesAre400) {
  const std::string id = plane.create();
  for (const char* wrong : {"cursor=x", "cursor=-1", "cursor=8640000000001", "limit=0", "limit=1001",
                            "direction=up", "level=loud", "after=7", "after=2023-11-14T22:13:20.007Z",
                            "after=1969-11-14T22:13:20.000007Z", "wait_ms=20001"})
    EXPECT_EQ(plane.api("GET", "/v2/sandboxes/" + id + "/logs?" + wrong).status, 400) << wrong;
  EXPECT_EQ(parse_log_query("search=" + std::string(257, 'a'), LogRoute::v2).error().code,
            Code::invalid_argument);
  EXPECT_TRUE(parse_log_query("unknown=1&level=loud", LogRoute::v1));  // old clients have no levels
}

TEST_F(ObservationTest, StatsOfOneAndOfAllThatRun) {
  const std::string id = plane.create();
  const std::string silent = plane.create();
  plane.node().stats[id] = {
      {"sampled_at", "2026-01-01T00:00:00.000Z"},
      {"cpu_count", 1},
      {"cpu_used_pct", 12.5},
      {"mem_used", 7},
      {"vmm_cpu_us", 99},
      {"activity",
       {{"idle_s", 3},
        {"reasons", {"cpu"}},
        {"leases", JsonArray{JsonObject{{"name", "build"}, {"expires_at", "2026-01-01T00:01:00.000Z"}}}}}}};
  const auto one = plane.api("GET", "/v1/sandboxes/" + id + "/stats").json();
  EXPECT_EQ(one.at("stats").at("cpuUsedPct"), 12.5);
  EXPECT_TRUE(one.at("stats").at("diskUsed").is_null());
  EXPECT_EQ(one.at("vmm").at("cpuUs"), 99);
  EXPECT_EQ(one.at("activity").at("idleSeconds"), 3);
  EXPECT_EQ(one.at("activity").at("leases").as_array().at(0).at("expiresAt"), "2026-01-01T00:01:00.000Z");

  const auto all = plane.api("GET", "/v1/stats").json().at("sandboxes").as_array();
  ASSERT_EQ(all.size(), 2U);
  for (const Json& entry : all) EXPECT_EQ(entry.at("stats").is_null(), entry.at("sandboxID") == Json(silent));
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/i0000000000000000000/stats").status, 404);
}

JsonObject layer(std::string_view name, std::string_view state, std::string_view detail) {
  return {{"name", name}, {"state", state}, {"detail", detail}};
}

TEST_F(ObservationTest, TheIsolationOfOneThatRuns) {
  const std::string id = plane.create();
  const std::string path = "/v1/sandboxes/" + id + "/isolation";
  plane.node().isolation[id] = {
      {"accelerator", "tcg"},
      {"layers", JsonArray{layer("seccomp", "active", "2 filters"), layer("landlock", "unavailable", "")}}};
  const std::string layers = R"("layers":[{"name":"seccomp","state":"active","detail":"2 filters"},)"
                             R"({"name":"landlock","state":"unavailable","detail":""}]})";
  EXPECT_EQ(plane.api("GET", path).body, R"json({"sandboxID":")json" + id +
                                             R"json(","hardwareIsolation":false,"accelerator":"tcg",)json" +
                                             R"json("summary":"hardware isolation: NO (TCG)",)json" + layers);
  plane.node().isolation[id]["accelerator"] = "kvm";
  EXPECT_EQ(plane.api("GET", path).body,
            R"json({"sandboxID":")json" + id + R"json(","hardwareIsolation":true,"accelerator":"kvm",)json" +
                R"json("summary":"hardware isolation: yes (KVM)",)json" + layers);
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/i0000000000000000000/isolation").status, 404);
  EXPECT_EQ(plane.send(TestPlane::request("GET", path, "")).status, 401);
}

TEST_F(ObservationTest, IsolationIsNobodyElsesBusiness) {
  const std::string id = plane.create();
  const std::string path = "/v1/sandboxes/" + id + "/isolation";
  plane.node().isolation[id] = {{"accelerator", "kvm"},
                                {"layers", JsonArray{layer("seccomp", "active", "")}}};
  ASSERT_EQ(plane.api("GET", path).status, 200);
  const std::string foreign = "e2b_" + std::string(40, 'f');
  ASSERT_TRUE(plane.run(plane.repository().add_team({"t2", "other"})));
  ASSERT_TRUE(plane.run(plane.repository().add_api_key({sha256_hex(foreign), "t2", "k", {}})));
  plane.api_key = foreign;
  EXPECT_EQ(plane.api("GET", path).status, 404);
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + plane.create() + "/stats").status, 200);  // the key is good
}

TEST_F(ObservationTest, AnIsolationThatIsNotSaidIsNoIsolation) {
  const std::string id = plane.create();
  const JsonObject good = layer("seccomp", "active", "");
  const JsonArray one = {good};
  const auto status = [&](JsonObject answer) {
    plane.node().isolation[id] = std::move(answer);
    return plane.api("GET", "/v1/sandboxes/" + id + "/isolation").status;
  };
  EXPECT_EQ(status({{"accelerator", "kvm"}, {"layers", one}}), 200);
  EXPECT_EQ(status({{"layers", one}}), 500);
  EXPECT_EQ(status({{"accelerator", "xen"}, {"layers", one}}), 500);
  EXPECT_EQ(status({{"accelerator", "kvm"}}), 500);
  EXPECT_EQ(status({{"accelerator", "kvm"}, {"layers", JsonArray()}}), 500);
  EXPECT_EQ(status({{"accelerator", "kvm"}, {"layers", {7}}}), 500);
  EXPECT_EQ(status({{"accelerator", "kvm"}, {"layers", JsonArray{good, layer("a", "on", "")}}}), 500);
  EXPECT_EQ(status({{"accelerator", "kvm"}, {"layers", JsonArray{{{"name", "a"}, {"state", "off"}}}}}), 500);
}

TEST_F(ObservationTest, CallsAreActivityAndLooksAreNot) {
  const std::string id = plane.create();
  plane.api("GET", "/v1/stats");
  plane.api("GET", "/v1/sandboxes/" + id + "/stats");
  plane.api("GET", "/v2/sandboxes/" + id + "/logs");
  plane.api("GET", "/sandboxes/" + id);
  EXPECT_THAT(plane.node().called, IsEmpty());
  plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":60})");
  plane.api("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":60})");
  plane.run_until([&] { return plane.node().called.size() == 2; });
  EXPECT_THAT(plane.node().called, ElementsAre(id, id));
}

TEST_F(ObservationTest, WithoutANodeTheAnswerIs503) {
  const std::string id = plane.create();
  plane.lose_node();
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + id + "/stats").status, 503);
}

}  // namespace
}  // namespace space::control
