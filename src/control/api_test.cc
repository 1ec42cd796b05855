// The API through the edge, with a fake node: statuses, bodies, life and end of sandboxes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

class ApiTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }
  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  TestPlane plane;
};

TEST_F(ApiTest, CreateAnswersWhatSdksNeed) {
  const Answer answer =
      plane.api("POST", "/v2/sandboxes",
                R"({"templateID":"base","timeout":60,"metadata":{"a":"b"},"envVars":{"K":"V"}})");
  ASSERT_EQ(answer.status, 201) << answer.body;
  const auto json = answer.json();
  const std::string id = *require_text(json, "sandboxID");
  EXPECT_TRUE(is_sandbox_id(id));
  EXPECT_EQ(*require_text(json, "templateID"), "base-id");
  EXPECT_EQ(*require_text(json, "alias"), "base");
  EXPECT_EQ(*require_text(json, "clientID"), "6532622b");
  EXPECT_EQ(*require_text(json, "envdVersion"), "0.6.13");
  EXPECT_EQ(require_text(json, "envdAccessToken")->size(), 32U);
  EXPECT_TRUE(json.at("domain").is_null());
  EXPECT_TRUE(json.at("trafficAccessToken").is_null());
  const JsonObject& asked = plane.node().sandboxes.at(id).request;
  EXPECT_EQ(*require_text(asked, "access_token"), *require_text(json, "envdAccessToken"));
  EXPECT_EQ(*require_text(**object_member(asked, "env"), "K"), "V");
  EXPECT_EQ(row(id).end_at, plane.clock.wall() + std::chrono::seconds(60));
}

TEST_F(ApiTest, OldClientsMayLeaveTheirSandboxOpen) {
  const Answer answer = plane.api("POST", "/sandboxes", R"({"templateID":"base"})");
  ASSERT_EQ(answer.status, 201);
  EXPECT_FALSE(answer.json().contains("envdAccessToken"));
  EXPECT_EQ(row(*require_text(answer.json(), "sandboxID")).timeout_s, 15);
}

TEST_F(ApiTest, GetShowsTheDetail) {
  const std::string id =
      plane.create(R"({"templateID":"base","metadata":{"a":"b"},"allow_internet_access":false})");
  const Answer answer = plane.api("GET", "/sandboxes/" + id);
  ASSERT_EQ(answer.status, 200);
  const auto json = answer.json();
  EXPECT_EQ(*require_text(json, "state"), "running");
  EXPECT_EQ(json.at("cpuCount"), 1);
  EXPECT_EQ(json.at("memoryMB"), 512);
  EXPECT_EQ(json.at("diskSizeMB"), 4096);
  EXPECT_EQ(json.at("allowInternetAccess"), false);
  EXPECT_EQ(to_text(json.at("metadata")), R"({"a":"b"})");
  EXPECT_EQ(*require_text(**object_member(json, "lifecycle"), "onTimeout"), "kill");
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id + "-6532622b").status, 200);
}

TEST_F(ApiTest, SecondKillIs404) {
  const std::string id = plane.create();
  const Answer killed = plane.api("DELETE", "/sandboxes/" + id);
  EXPECT_EQ(killed.status, 204);
  EXPECT_EQ(killed.body, "");
  EXPECT_TRUE(plane.node().sandboxes.empty());
  const Answer again = plane.api("DELETE", "/sandboxes/" + id);
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.json().at("code"), 404);
  EXPECT_THAT(again.message(), HasSubstr("killed by a request"));
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 404);
  EXPECT_EQ(plane.api("POST", "/v2/sandboxes/" + id + "/connect", "{}").status, 404);
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":1})").status, 404);
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes").body, "[]");
}

TEST_F(ApiTest, ConnectOnlyExtends) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":600})");
  const Answer shorter = plane.api("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":60})");
  EXPECT_EQ(shorter.status, 200);
  EXPECT_EQ(*require_text(shorter.json(), "sandboxID"), id);
  EXPECT_EQ(row(id).end_at, plane.clock.wall() + std::chrono::seconds(600));
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/connect", R"({"timeout":900})").status, 200);
  EXPECT_EQ(row(id).end_at, plane.clock.wall() + std::chrono::seconds(900));
}

TEST_F(ApiTest, TimeoutMovesBothWaysAndIsCutToTheMaximum) {
  const std::string id = plane.create();
  for (const int timeout_s : {10, 500}) {
    const std::string body = fmt::format(R"({{"timeout":{}}})", timeout_s);
    EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", body).status, 204);
    EXPECT_EQ(row(id).end_at, plane.clock.wall() + std::chrono::seconds(timeout_s));
  }
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":9000000000000000000})").status,
            204);
  EXPECT_EQ(row(id).end_at, row(id).started_at + std::chrono::seconds(3600));
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":0})").status, 400);
}

TEST_F(ApiTest, ATimeoutKillsAndSaysSo) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":60})");
  const std::string other = plane.create(R"({"templateID":"base","timeout":600})");
  plane.clock.advance(Millis(59'000));
  plane.sandboxes().expire_due();
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 200);
  plane.clock.advance(Millis(1'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return !plane.node().sandboxes.contains(id); });
  const Answer answer = plane.api("GET", "/sandboxes/" + id);
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.message(), HasSubstr("its timeout passed"));
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + other).status, 200);
}

TEST_F(ApiTest, ADeathIsReportedWithItsCause) {
  const std::string id = plane.create();
  plane.node().report(id, State::failed, "its virtual machine was killed by signal 9");
  plane.run_until([&] { return !plane.node().sandboxes.contains(id); });
  const Answer answer = plane.api("GET", "/sandboxes/" + id);
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.message(), HasSubstr("killed by signal 9"));
}

TEST_F(ApiTest, ListPagesThroughAll) {
  std::set<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    plane.clock.advance(Millis(10));
    expected.insert(plane.create());
  }
  std::set<std::string> seen;
  std::string next;
  do {
    const Answer page =
        plane.api("GET", "/v2/sandboxes?limit=2&order=asc" + (next.empty() ? "" : "&nextToken=" + next));
    ASSERT_EQ(page.status, 200) << page.body;
    EXPECT_EQ(page.fields.get("X-Total-Running"), "5");
    const Json entries = *parse_json(page.body);
    for (const Json& entry : entries.as_array()) seen.insert(*require_text(entry.as_object(), "sandboxID"));
    next = std::string(page.fields.get("X-Next-Token").value_or(""));
  } while (!next.empty() && seen.size() < 10);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes?state=paused").body, "[]");
  EXPECT_FALSE(plane.api("GET", "/v2/sandboxes?state=paused").fields.get("X-Total-Running"));
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes?state=dead").status, 400);
}

TEST_F(ApiTest, AnotherTeamSeesNothing) {
  const std::string id = plane.create();
  const auto row_of_other = [&] {
    store::Sandbox stranger;
    stranger.id = new_sandbox_id();
    stranger.team = "other";
    return stranger;
  }();
  ASSERT_TRUE(plane.run(plane.repository().add_team({"other", "other"})));
  ASSERT_TRUE(plane.run(plane.repository().add_sandbox(row_of_other)));
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + row_of_other.id).status, 404);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + row_of_other.id).status, 404);
  EXPECT_EQ(*require_text(parse_json(plane.api("GET", "/v2/sandboxes").body)->as_array().at(0).as_object(),
                          "sandboxID"),
            id);
}

TEST_F(ApiTest, KeysAreChecked) {
  for (const char* key : {"", "e2b_0000000000000000000000000000000000000000"}) {
    auto head = TestPlane::request("GET", "/v2/sandboxes", "");
    if (*key != '\0') head.fields.add("X-API-Key", key);
    const Answer answer = plane.send(std::move(head));
    EXPECT_EQ(answer.status, 401);
    EXPECT_THAT(answer.message(), HasSubstr("Invalid API key"));
  }
  EXPECT_EQ(plane.send(TestPlane::request("GET", "/health", "")).status, 200);
}

TEST_F(ApiTest, BadInput) {
  const auto create = [&](std::string body) { return plane.api("POST", "/v2/sandboxes", std::move(body)); };
  EXPECT_EQ(create("{").status, 400);
  EXPECT_EQ(create(R"({"templateID":5})").message(), "'templateID' must be a string");
  EXPECT_EQ(create(R"({"templateID":"base","timeout":3601})").message(),
            "Timeout cannot be greater than 1 hours");
  const Answer unknown = create(R"({"templateID":"nope"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.message(), HasSubstr("'nope'"));
  EXPECT_EQ(create(std::string(1024 * 1024 + 1, ' ')).status, 413);
  EXPECT_EQ(plane.api("GET", "/nothing").status, 404);
  const Answer method = plane.api("PUT", "/v2/sandboxes");
  EXPECT_EQ(method.status, 405);
  EXPECT_TRUE(method.fields.get("Allow"));
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + new_sandbox_id() + "/refreshes").status, 501);
  EXPECT_TRUE(plane.node().created.empty());
}

TEST_F(ApiTest, TemplateNames) {
  for (const char* name : {"base", "base-id", "base:default", "default/base"})
    plane.create(fmt::format(R"({{"templateID":"{}"}})", name));
  EXPECT_EQ(plane.api("POST", "/v2/sandboxes", R"({"templateID":"other/base"})").status, 404);
}

TEST_F(ApiTest, TemplatesComeAndGo) {
  const std::string digest(64, 'd');
  const Answer added =
      plane.api("POST", "/v1/templates", fmt::format(R"({{"digest":"{}","name":"mine"}})", digest));
  ASSERT_EQ(added.status, 201) << added.body;
  EXPECT_TRUE(plane.node().templates.contains(digest));
  EXPECT_THAT(plane.api("GET", "/v1/templates").body, HasSubstr("mine"));
  plane.create(R"({"templateID":"mine"})");
  EXPECT_EQ(plane.api("DELETE", "/v1/templates/mine").status, 204);
  EXPECT_FALSE(plane.node().templates.contains(digest));
  EXPECT_EQ(plane.api("DELETE", "/v1/templates/mine").status, 404);
  EXPECT_EQ(plane.api("POST", "/v1/templates", R"({"digest":"../etc"})").status, 400);
  EXPECT_EQ(plane.api("GET", "/v1/node").json().at("connected"), true);
}

TEST_F(ApiTest, AFailedStartIsRecordedAndAnswered) {
  plane.node().create_error = Error{Code::internal, "the guest did not answer"};
  const Answer answer = plane.api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(*require_text(answer.json(), "error_code"), "sandbox_create_failed");
  EXPECT_THAT(answer.message(), HasSubstr("the guest did not answer"));
  const store::Sandbox tombstone = row(plane.node().created.at(0));
  EXPECT_EQ(tombstone.state, State::failed);
  EXPECT_TRUE(tombstone.ended_at);
  plane.node().create_error = Error{Code::exhausted, "no memory left"};
  const Answer full = plane.api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(*require_text(full.json(), "error_code"), "sandbox_capacity_unavailable");
}

TEST_F(ApiTest, AnotherTeamOnANodeWithoutHardwareIsolation) {
  plane.create();
  EXPECT_EQ(plane.node().sandboxes.begin()->second.request.at("team"), "default");
  plane.node().create_error = Error{Code::permission_denied, "set allow_tcg_multitenant"};
  const Answer refused = plane.api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(*require_text(refused.json(), "error_code"), "sandbox_tcg_multitenant_refused");
  EXPECT_THAT(refused.message(), HasSubstr("set allow_tcg_multitenant"));
}

TEST(ApiWithoutNode, CreateIs503) {
  TestPlane plane;
  const Answer answer = plane.api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(*require_text(answer.json(), "error_code"), "sandbox_no_compatible_node");
  EXPECT_EQ(plane.api("GET", "/v1/node").json().at("connected"), false);
}

}  // namespace
}  // namespace space::control
