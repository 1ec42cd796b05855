// Where sandboxes may connect to, through the edge, with a fake node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

constexpr const char* narrow = R"({"mode":"restricted","allow":["pypi.org"]})";
constexpr const char* closed = R"({"mode":"deny_all"})";

class EgressApiTest : public testing::Test {
 protected:
  explicit EgressApiTest(EgressMode by_default = EgressMode::allow_all) : plane(3600, by_default) {}
  void SetUp() override {
    plane.connect_node();
    id = plane.create();
  }

  Answer api(std::string method, std::string rest, std::string body = "") {
    return plane.api(std::move(method), "/v1/sandboxes/" + id + "/egress" + rest, std::move(body));
  }
  Answer network(std::string body) {
    return plane.api("PUT", "/sandboxes/" + id + "/network", std::move(body));
  }
  JsonObject detail() { return plane.api("GET", "/sandboxes/" + id).json(); }
  std::string policy_of(const std::string& sandbox) {
    return to_text(plane.api("GET", "/v1/sandboxes/" + sandbox + "/egress").json().at("policy"));
  }
  std::int64_t generation() { return api("GET", "").json().at("generation").as_int64(); }
  std::string on_node(const std::string& sandbox) {
    return to_text(plane.node().sandboxes.at(sandbox).egress);
  }

  TestPlane plane;
  std::string id;
};

class ClosedByDefaultTest : public EgressApiTest {
 protected:
  ClosedByDefaultTest() : EgressApiTest(EgressMode::deny_all) {}
};

TEST_F(EgressApiTest, TheNodeHearsItWithTheCreate) {
  EXPECT_EQ(on_node(id), R"({"mode":"allow_all"})");
  EXPECT_EQ(generation(), 1);
  const std::string own = plane.create(R"({"templateID":"base","egress":)" + std::string(narrow) + "}");
  EXPECT_EQ(on_node(own), narrow);
  EXPECT_EQ(policy_of(own), narrow);
  const std::string e2b = plane.create(R"({"templateID":"base","allow_internet_access":false})");
  EXPECT_THAT(on_node(e2b), HasSubstr("deny_all"));
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + e2b).json().at("allowInternetAccess"), false);
}

TEST_F(ClosedByDefaultTest, TheOperatorsDefault) {
  EXPECT_EQ(on_node(id), closed);
  // As old SDKs create.
  EXPECT_EQ(on_node(plane.create(R"({"templateID":"base","allow_internet_access":true})")), closed);
  EXPECT_EQ(on_node(plane.create(R"({"templateID":"base","egress":{"mode":"allow_all"}})")),
            R"({"mode":"allow_all"})");
  ASSERT_EQ(api("PUT", "", R"({"mode":"allow_all"})").status, 200);
  EXPECT_EQ(network("{}").status, 204);
  EXPECT_EQ(on_node(id), closed);
}

TEST_F(EgressApiTest, APolicyIsReplaced) {
  const Answer changed = api("PUT", "", narrow);
  EXPECT_EQ(changed.status, 200) << changed.body;
  EXPECT_EQ(changed.body, R"({"generation":2,"cut":2})");
  EXPECT_EQ(on_node(id), narrow);
  EXPECT_EQ(policy_of(id), narrow);
  plane.restart();
  plane.connect_node();
  EXPECT_EQ(policy_of(id), narrow);
  EXPECT_EQ(generation(), 2);
  EXPECT_TRUE(plane.node().egress_calls.empty() || plane.node().egress_calls.front().first == "/stats");
}

TEST_F(EgressApiTest, ABadPolicyNeverReachesTheNode) {
  for (const char* body :
       {"", "[]", "{}", R"({"mode":"open"})", R"({"mode":"restricted","allow":["*.com"]})",
        R"({"mode":"restricted","allow":["169.254.169.254"]})",
        R"({"mode":"restricted","allow":["10.0.0.1/8"]})", R"({"mode":"deny_all","x":1})"}) {
    const Answer answer = api("PUT", "", body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    EXPECT_FALSE(answer.message().empty());
  }
  const Answer internal = api("PUT", "", R"({"mode":"allow_all","internal":["10.0.0.0/8"]})");
  EXPECT_EQ(internal.status, 403) << internal.body;
  EXPECT_TRUE(plane.node().egress_calls.empty());
  EXPECT_EQ(generation(), 1);
  EXPECT_EQ(api("PUT", "?force=true", R"({"mode":"restricted","allow":["*.com"]})").status, 200);
}

TEST_F(EgressApiTest, ARefusalOfTheNodeLeavesTheOldOne) {
  ASSERT_EQ(api("PUT", "", narrow).status, 200);
  plane.node().egress_error = Error{Code::exhausted, "no room"};
  const Answer refused = api("PUT", "", closed);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.message(), "no room");
  EXPECT_EQ(policy_of(id), narrow);
  EXPECT_EQ(on_node(id), narrow);
  EXPECT_EQ(generation(), 2);
  plane.node().egress_error.reset();
  EXPECT_EQ(api("PUT", "", closed).status, 200);
  EXPECT_EQ(policy_of(id), closed);
}

TEST_F(EgressApiTest, WithoutANodeNothingChanges) {
  plane.lose_node();
  EXPECT_EQ(api("PUT", "", closed).status, 503);
  const JsonObject shown = api("GET", "").json();
  EXPECT_EQ(to_text(shown.at("policy")), R"({"mode":"allow_all"})");
  EXPECT_TRUE(shown.at("counters").is_null());
}

// The node has it, the answer got lost with the control plane: nobody was told, and the old policy comes
// back.
TEST_F(EgressApiTest, AChangeThatNobodyHeardOfIsTakenBack) {
  ASSERT_EQ(api("PUT", "", narrow).status, 200);
  plane.node().egress_hangs = true;
  auto lost = plane.begin_api("PUT", "/v1/sandboxes/" + id + "/egress", R"({"mode":"allow_all"})");
  plane.run_until([&] { return plane.node().sandboxes.at(id).egress_generation == 3; });
  EXPECT_EQ(on_node(id), R"({"mode":"allow_all"})");
  // It belongs to the loop that ends here.
  lost->leave();
  plane.run_until([&] { return lost->done(); });
  lost.reset();
  plane.restart();
  plane.connect_node();
  plane.run_until([&] { return on_node(id) == narrow; });
  plane.run_until([&] { return generation() == 4; });
  EXPECT_EQ(policy_of(id), narrow);
}

TEST_F(EgressApiTest, ChangesComeOneAfterTheOther) {
  std::vector<std::unique_ptr<TestPlane::Sending>> all;
  ASSERT_EQ(api("PUT", "", R"({"mode":"restricted"})").status, 200);
  for (int i = 0; i < 8; ++i)
    all.push_back(plane.begin_api("POST", "/v1/sandboxes/" + id + "/egress/rules",
                                  fmt::format(R"({{"allow":["h{}.example.com"]}})", i)));
  for (const auto& one : all) EXPECT_EQ(plane.finish(*one).status, 200) << one->answer().body;
  EXPECT_EQ(api("GET", "").json().at("policy").at("allow").as_array().size(), 8U);
  EXPECT_EQ(generation(), 10);
}

TEST_F(EgressApiTest, RulesAreAddedAndRemoved) {
  ASSERT_EQ(api("PUT", "", closed).status, 200);
  EXPECT_EQ(api("POST", "/rules", R"({"allow":["pypi.org"]})").status, 200);
  EXPECT_EQ(on_node(id), narrow);
  const Answer missing = api("POST", "/rules", R"({"remove":["example.com"]})");
  EXPECT_EQ(missing.status, 400);
  EXPECT_THAT(missing.message(), HasSubstr("no rule 'example.com'"));
  EXPECT_EQ(api("POST", "/rules", R"({"remove":["pypi.org"]})").status, 200);
  EXPECT_EQ(on_node(id), R"({"mode":"restricted"})");
}

TEST_F(EgressApiTest, E2bsRouteReplacesAndIsShown) {
  const Answer changed = network(R"({"allowOut":["api.example.com"],"denyOut":["0.0.0.0/0"]})");
  EXPECT_EQ(changed.status, 204) << changed.body;
  EXPECT_EQ(on_node(id),
            R"({"mode":"restricted","allow":["api.example.com"],"allow_first":true,"pinned":false})");
  EXPECT_EQ(to_text(detail().at("network").at("allowOut")), R"(["api.example.com"])");
  EXPECT_EQ(network(R"({"allow_internet_access":false})").status, 204);
  EXPECT_EQ(detail().at("allowInternetAccess"), false);
  EXPECT_FALSE(detail().contains("network"));
  EXPECT_EQ(network("{}").status, 204);
  EXPECT_TRUE(detail().at("allowInternetAccess").is_null());
  EXPECT_EQ(on_node(id), R"({"mode":"allow_all"})");
  const Answer refused = network(R"({"allowOut":["api.example.com"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.message(), HasSubstr("you must include 'ALL_TRAFFIC' in deny out"));
  // Our own route says nothing in E2B's words.
  ASSERT_EQ(network(R"({"denyOut":["8.8.8.8"]})").status, 204);
  ASSERT_EQ(api("PUT", "", closed).status, 200);
  EXPECT_FALSE(detail().contains("network"));
}

TEST_F(EgressApiTest, WhatOnlyACreateSaysStays) {
  id = plane.create(R"({"templateID":"base","network":{"allowPublicTraffic":false,"denyOut":["8.8.8.8"]}})");
  ASSERT_EQ(network(R"({"denyOut":["9.9.9.9"]})").status, 204);
  EXPECT_EQ(detail().at("network").at("allowPublicTraffic"), false);
  EXPECT_EQ(to_text(detail().at("network").at("denyOut")), R"(["9.9.9.9"])");
}

TEST_F(EgressApiTest, E2bsRouteIsForThoseThatRun) {
  ASSERT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause").status, 204);
  const Answer refused = network("{}");
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_THAT(refused.message(), HasSubstr("is paused"));
  EXPECT_EQ(api("PUT", "", narrow).status, 200);
  EXPECT_EQ(on_node(id), narrow);
  EXPECT_EQ(plane.api("PUT", "/sandboxes/inone0000000000000000/network", "{}").status, 404);
  EXPECT_EQ(plane.api("PUT", "/v1/sandboxes/inone0000000000000000/egress", closed).status, 404);
}

TEST_F(EgressApiTest, AForkHasItsParentsPolicy) {
  ASSERT_EQ(api("PUT", "", narrow).status, 200);
  ASSERT_EQ(api("POST", "/rules", R"({"deny":["192.0.9.0/24"]})").status, 200);
  const std::string before = on_node(id);
  const Answer forked = plane.api("POST", "/v1/sandboxes/" + id + "/fork", R"({"count":2})");
  ASSERT_EQ(forked.status, 201) << forked.body;
  const Json children = *parse_json(forked.body);
  for (const Json& one : children.as_array()) {
    const std::string child(one.at("sandbox").at("sandboxID").as_string());
    EXPECT_EQ(on_node(child), before);
    EXPECT_EQ(plane.node().sandboxes.at(child).egress_generation, 3);
    EXPECT_EQ(policy_of(child), before);
  }
}

TEST_F(EgressApiTest, ASandboxOfASnapshotHasWhatTheSnapshotsHad) {
  ASSERT_EQ(api("PUT", "", narrow).status, 200);
  const Answer made = plane.api("POST", "/sandboxes/" + id + "/snapshots", R"({"name":"ready"})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string of = R"({"templateID":")" + *require_text(made.json(), "snapshotID") + "\"";
  EXPECT_EQ(on_node(plane.create(of + "}")), narrow);
  EXPECT_EQ(on_node(plane.create(of + R"(,"allow_internet_access":true})")), narrow);
  EXPECT_EQ(on_node(plane.create(of + R"(,"egress":{"mode":"deny_all"}})")), closed);
  ASSERT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_EQ(on_node(plane.create(of + "}")), narrow);
}

TEST_F(EgressApiTest, WhatItsGatewaySays) {
  plane.node().network = JsonObject{{"state", "repaired"}, {"reason", "its rules were put back"}};
  plane.node().egress_answer = *parse_json_object(
      R"({"flows":1,"flows_total":2,"denied_total":3,"bytes_in":4,"bytes_out":5,"dns_queries":6,"dns_refused":0,
          "by_reason":{}})",
      "stats");
  const JsonObject shown = api("GET", "").json();
  EXPECT_EQ(shown.at("counters").at("denied_total"), 3);
  EXPECT_EQ(shown.at("network").at("state"), "repaired");
  plane.node().egress_answer = *parse_json_object(
      R"({"allowed":false,"reason":"deny_mode","rule":"","explanation":"no rule allows it","host":"a.example",
          "port":443,"addresses":[],"generation":1})",
      "test");
  const Answer test = api("POST", "/test", R"({"url":"https://a.example/"})");
  EXPECT_EQ(test.status, 200) << test.body;
  EXPECT_EQ(test.json().at("reason"), "deny_mode");
  EXPECT_EQ(plane.node().egress_calls.back().second.at("url"), "https://a.example/");
  plane.node().egress_answer = JsonObject{{"entries", JsonArray()}, {"next", 5}, {"gap", false}};
  const Answer log = api("GET", "/log?after=5&limit=10&wait=1");
  EXPECT_EQ(log.body, R"({"entries":[],"next":5,"gap":false})");
  EXPECT_EQ(plane.node().egress_calls.back().second.at("wait_ms"), 1000);
  EXPECT_EQ(api("POST", "/test", "{}").status, 400);
  EXPECT_EQ(api("GET", "/log?limit=0").status, 400);
  plane.node().egress_answer = {};
  EXPECT_EQ(api("GET", "/log").status, 503);
}

}  // namespace
}  // namespace space::control
