// Snapshots, schedule, history and differences through the edge, with a fake node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/snapshot_json.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

class SnapshotsApiTest : public testing::Test {
 protected:
  void SetUp() override {
    plane.connect_node();
    id = plane.create();
  }

  std::string path(std::string rest, std::string sandbox = "") const {
    return "/v1/sandboxes/" + (sandbox.empty() ? id : sandbox) + "/" + rest;
  }
  Answer get(std::string rest) { return plane.api("GET", path(std::move(rest))); }
  Answer post(std::string rest, std::string body = "") {
    return plane.api("POST", path(std::move(rest)), std::move(body));
  }
  Answer put(std::string rest, std::string body) {
    return plane.api("PUT", path(std::move(rest)), std::move(body));
  }
  Answer patch(std::string rest, std::string body) {
    return plane.api("PATCH", path(std::move(rest)), std::move(body));
  }
  const JsonObject& last_call() { return plane.node().lineage_calls.back().second; }

  TestPlane plane;
  std::string id;
};

// A sandbox of another team, which the key of this one must not see.
std::string foreign(TestPlane& plane, State state = State::running) {
  EXPECT_TRUE(plane.run(plane.repository().add_team({"t-other", "other"})));
  store::Sandbox row;
  row.id = new_sandbox_id();
  row.team = "t-other";
  row.state = state;
  row.end_at = plane.clock.wall() + std::chrono::hours(1);
  EXPECT_TRUE(plane.run(plane.repository().add_sandbox(row)));
  const std::string made = row.id;
  plane.restart();
  plane.node().sandboxes[made] = {state, "", {}};
  plane.connect_node();
  return made;
}

TEST_F(SnapshotsApiTest, MadeAsAskedFor) {
  const Answer full = post("snapshots");
  EXPECT_EQ(full.status, 201) << full.body;
  EXPECT_EQ(full.json().at("number"), 1);
  EXPECT_EQ(full.json().at("kind"), "full");
  EXPECT_EQ(full.json().at("cause"), "asked");
  EXPECT_TRUE(full.json().at("name").is_null());
  const Answer disk = post("snapshots", R"({"kind":"disk","name":"before-v2","pinned":true})");
  EXPECT_EQ(disk.status, 201) << disk.body;
  EXPECT_EQ(disk.json().at("kind"), "disk");
  EXPECT_EQ(disk.json().at("name"), "before-v2");
  EXPECT_EQ(disk.json().at("pinned"), true);
  EXPECT_EQ(disk.json().at("parent"), 1);
  EXPECT_EQ(plane.node().snapshot_calls.back().at("kind"), "disk");
  EXPECT_EQ(get("snapshots").json().at("snapshots").as_array().size(), 2U);
  EXPECT_FALSE(plane.node().snapshot_calls.front().contains("name"));
}

TEST_F(SnapshotsApiTest, BadBodiesAreRefusedBeforeTheNodeHears) {
  for (const char* body :
       {"[", "[]", "1", R"({"kind":"memory"})", R"({"kind":1})", R"({"name":""})", R"({"name":"a b"})",
        R"({"name":"../x"})", R"({"name":".x"})", R"({"name":5})", R"({"pinned":"yes"})", R"({"nam":"x"})"})
    EXPECT_EQ(post("snapshots", body).status, 400) << body;
  EXPECT_EQ(post("snapshots", R"({"name":")" + std::string(65, 'x') + "\"}").status, 400);
  EXPECT_TRUE(plane.node().snapshot_calls.empty());
  EXPECT_EQ(post("snapshots", R"({"name":")" + std::string(64, 'x') + "\"}").status, 201);
  EXPECT_EQ(plane.node().snapshot_calls.size(), 1U);
  EXPECT_EQ(get("snapshots?measure=yes").status, 400);
  EXPECT_EQ(get("snapshots?mesure=true").status, 400);
  EXPECT_EQ(get("snapshots?measure=true").status, 200);
}

TEST_F(SnapshotsApiTest, NamedPinnedAndRemoved) {
  post("snapshots");
  const Answer named = patch("snapshots/1", R"({"name":"good","pinned":true})");
  EXPECT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(named.json().at("name"), "good");
  EXPECT_EQ(named.json().at("pinned"), true);
  EXPECT_TRUE(patch("snapshots/1", R"({"name":null})").json().at("name").is_null());
  EXPECT_TRUE(last_call().at("name").is_null());
  EXPECT_FALSE(last_call().contains("pinned"));
  for (const char* body : {"", "{}", R"({"pinned":null})", R"({"kind":"disk"})", R"({"name":""})"})
    EXPECT_EQ(patch("snapshots/1", body).status, 400) << body;
  EXPECT_EQ(plane.api("DELETE", path("snapshots/1")).status, 204);
  EXPECT_EQ(plane.api("DELETE", path("snapshots/1")).status, 404);
  EXPECT_EQ(patch("snapshots/1", R"({"pinned":true})").status, 404);
  for (const char* number : {"0", "-1", "x", "1x", "99999999999999999999", "%2e%2e"})
    EXPECT_EQ(plane.api("DELETE", path(std::string("snapshots/") + number)).status, 404) << number;
}

TEST_F(SnapshotsApiTest, ANeededOneStaysAndTheAnswerSaysWhatToDo) {
  post("snapshots");
  plane.node().sandboxes.at(id).snapshots[0].get_object()["used_by"] = JsonArray{new_sandbox_id()};
  EXPECT_EQ(get("snapshots").json().at("snapshots").as_array()[0].as_object().at("usedBy").as_array().size(),
            1U);
  const Answer refused = plane.api("DELETE", path("snapshots/1"));
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.message(), HasSubstr("Delete that one first"));
}

TEST_F(SnapshotsApiTest, AForeignSandboxIsAnUnknownOne) {
  const std::string other = foreign(plane);
  const std::string unknown = new_sandbox_id();
  struct Request {
    const char *method, *rest, *body;
  };
  for (const Request& request : std::initializer_list<Request>{{"GET", "snapshots", ""},
                                                               {"POST", "snapshots", "{}"},
                                                               {"DELETE", "snapshots/1", ""},
                                                               {"PATCH", "snapshots/1", R"({"pinned":true})"},
                                                               {"POST", "rollback", R"({"snapshot":1})"},
                                                               {"GET", "schedule", ""},
                                                               {"PUT", "schedule", R"({"schedule":"off"})"},
                                                               {"GET", "recovery", ""},
                                                               {"PUT", "recovery", R"({"policy":"none"})"},
                                                               {"POST", "recovery", ""},
                                                               {"GET", "history", ""},
                                                               {"GET", "diff?from=1&to=2", ""}}) {
    const Answer one = plane.api(request.method, path(request.rest, other), request.body);
    const Answer none = plane.api(request.method, path(request.rest, unknown), request.body);
    EXPECT_EQ(one.status, 404) << request.rest << one.body;
    EXPECT_EQ(none.status, 404) << request.rest;
    EXPECT_EQ(one.message(), "Sandbox " + other + " was not found") << request.rest;
    EXPECT_EQ(none.message(), "Sandbox " + unknown + " was not found") << request.rest;
  }
  EXPECT_TRUE(plane.node().lineage_calls.empty());
  EXPECT_TRUE(plane.node().snapshot_calls.empty());
  EXPECT_EQ(get("snapshots").status, 200);  // one's own
}

TEST_F(SnapshotsApiTest, ScheduleIsKeptAndTold) {
  EXPECT_EQ(get("schedule").body, R"({"schedule":null})");
  const Answer set = put("schedule", R"({"schedule":{"disk":{"everySeconds":60,"keep":[
    {"everySeconds":60,"count":5}]},"quotaBytes":1073741824}})");
  EXPECT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(get("schedule").body, set.body);
  EXPECT_EQ(put("schedule", set.body).body, set.body);  // what was read can be written
  const JsonObject& told = plane.node().sandboxes.at(id).schedule.get_object();
  EXPECT_EQ(told.at("disk").as_object().at("every_s"), 60);
  EXPECT_EQ(told.at("quota_bytes"), 1073741824);
  EXPECT_EQ(put("schedule", R"({"schedule":"default"})").status, 200);
  EXPECT_EQ(get("schedule").json().at("schedule").as_object().at("full").as_object().at("everySeconds"),
            3600);
  for (const char* off : {R"({"schedule":"off"})", R"({"schedule":null})"}) {
    EXPECT_EQ(put("schedule", R"({"schedule":"default"})").status, 200);
    EXPECT_FALSE(plane.node().sandboxes.at(id).schedule.is_null());
    EXPECT_EQ(put("schedule", off).body, R"({"schedule":null})");
    EXPECT_TRUE(plane.node().sandboxes.at(id).schedule.is_null());
  }
}

TEST_F(SnapshotsApiTest, AScheduleThatCannotBeMetSaysWhy) {
  EXPECT_EQ(put("schedule", R"({"schedule":"default"})").status, 200);
  const std::size_t calls = plane.node().lineage_calls.size();
  const Answer refused =
      put("schedule", R"({"schedule":{"disk":{"everySeconds":600,"keep":[{"everySeconds":60,"count":5}]}}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.message(), HasSubstr("cannot be kept every 60 s"));
  for (const char* schedule :
       {R"("daily")", "5", "[]", "{}", R"({"disk":{"everySeconds":1,"keep":[{"everySeconds":1,"count":1}]}})",
        R"({"disk":{"everySeconds":60,"keep":[]}})", R"({"disk":{"every_s":60,"keep":[]}})",
        R"({"quotaBytes":1073741824})"}) {
    const Answer bad = put("schedule", std::string(R"({"schedule":)") + schedule + "}");
    EXPECT_EQ(bad.status, 400) << schedule;
    EXPECT_THAT(bad.message(), testing::Not(HasSubstr("every_s"))) << schedule;
  }
  EXPECT_EQ(put("schedule", "{}").status, 400);
  EXPECT_EQ(put("schedule", "").status, 400);
  EXPECT_EQ(plane.node().lineage_calls.size(), calls);
  EXPECT_FALSE(get("schedule").json().at("schedule").is_null());
}

TEST_F(SnapshotsApiTest, ChosenAtItsCreation) {
  const std::string other =
      plane.create(R"({"templateID":"base","schedule":"default","recovery":"checkpoint"})");
  EXPECT_EQ(plane.node().sandboxes.at(other).request.at("recovery"), "checkpoint");
  EXPECT_EQ(plane.node()
                .sandboxes.at(other)
                .request.at("schedule")
                .as_object()
                .at("disk")
                .as_object()
                .at("every_s"),
            600);
  const JsonObject shown = plane.api("GET", "/v1/sandboxes/" + other).json();
  EXPECT_EQ(shown.at("recovery"), "checkpoint");
  EXPECT_EQ(shown.at("schedule").as_object().at("disk").as_object().at("everySeconds"), 600);
  EXPECT_FALSE(plane.node().sandboxes.at(id).request.contains("schedule"));
  for (const char* body :
       {R"({"templateID":"base","schedule":"hourly"})", R"({"templateID":"base","recovery":"always"})"})
    EXPECT_EQ(plane.api("POST", "/v2/sandboxes", body).status, 400) << body;
}

TEST_F(SnapshotsApiTest, WhatTheNodeMissedItIsToldWhenItIsBack) {
  EXPECT_EQ(put("schedule", R"({"schedule":"default"})").status, 200);
  EXPECT_EQ(put("recovery", R"({"policy":"checkpoint"})").status, 200);
  plane.lose_node();
  EXPECT_EQ(put("schedule", R"({"schedule":"off"})").status, 200);
  EXPECT_EQ(put("recovery", R"({"policy":"none"})").status, 200);
  EXPECT_FALSE(plane.node().sandboxes.at(id).schedule.is_null());
  EXPECT_EQ(plane.node().sandboxes.at(id).recovery, "checkpoint");
  const std::size_t calls = plane.node().lineage_calls.size();
  plane.connect_node();
  plane.run_until([&] {
    return plane.node().sandboxes.at(id).schedule.is_null() &&
           plane.node().sandboxes.at(id).recovery == "none";
  });
  EXPECT_EQ(plane.node().lineage_calls.size(), calls + 2);
}

TEST_F(SnapshotsApiTest, HistoryIsMadeAnew) {
  JsonObject snapshot{{"number", 1},
                      {"parent", nullptr},
                      {"kind", "full"},
                      {"cause", "asked"},
                      {"created_at", "2026-01-31T12:00:00.000Z"},
                      {"quiesced", true},
                      {"memory_bytes", 1},
                      {"dirty_bytes", 1},
                      {"written_bytes", 1},
                      {"stop_window_us", 1},
                      {"secret", "not ours to show"}};
  const std::string child = new_sandbox_id();
  plane.node().history = {{"head", 1},
                          {"origin", {{"sandbox", child}, {"number", 7}}},
                          {"snapshots", JsonArray{snapshot}},
                          {"forks", JsonArray{JsonObject{{"id", child}, {"number", 1}}}},
                          {"events", JsonArray{JsonObject{{"at", "2026-01-31T12:00:00.000Z"},
                                                          {"kind", "fork"},
                                                          {"number", 1},
                                                          {"other", child},
                                                          {"text", "forked"}}}}};
  const Answer answer = get("history");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("head"), 1);
  EXPECT_EQ(answer.json().at("origin"), (JsonObject{{"sandboxID", child}, {"number", 7}}));
  EXPECT_EQ(answer.json().at("forks"), (JsonArray{JsonObject{{"sandboxID", child}, {"number", 1}}}));
  EXPECT_EQ(answer.json().at("events").as_array()[0].as_object().at("sandboxID"), Json(child));
  EXPECT_THAT(answer.body, testing::Not(HasSubstr("secret")));
  plane.node().history["forks"] = JsonArray{JsonObject{{"id", "<script>"}, {"number", 1}}};
  EXPECT_EQ(get("history").status, 500);
  EXPECT_THAT(get("history").body, testing::Not(HasSubstr("<script>")));
}

TEST_F(SnapshotsApiTest, DifferencesAreOfAGuestsChoosingAndBounded) {
  const auto change = [](std::string name) {
    return JsonObject{{"path", std::move(name)}, {"change", "added"}, {"type", "file"}, {"size", 3}};
  };
  plane.node().difference = {{"changes", JsonArray{change("/a\n\"b\x1b[2J"), change("/c"), change("/d")}},
                             {"truncated", false}};
  const Answer all = get("diff?from=1&to=2");
  ASSERT_EQ(all.status, 200) << all.body;
  EXPECT_EQ(all.json().at("changes").as_array().size(), 3U);
  EXPECT_EQ(all.json().at("truncated"), false);
  EXPECT_THAT(all.body, HasSubstr(R"(/a\n\"b\u001b[2J)"));
  EXPECT_EQ(last_call(), (JsonObject{{"id", id}, {"from", 1}, {"to", 2}, {"limit", 1000}}));
  const Answer two = get("diff?from=1&to=2&limit=2");
  EXPECT_EQ(two.json().at("changes").as_array().size(), 2U);
  EXPECT_EQ(two.json().at("truncated"), true);
  plane.node().difference["changes"] = JsonArray{change(std::string(20'000, 'x'))};
  EXPECT_EQ(get("diff?from=1&to=2").status, 500);
  for (const char* query : {"", "?from=1", "?to=1", "?from=1&to=1", "?from=0&to=1", "?from=a&to=b",
                            "?from=1&to=2&limit=0", "?from=1&to=2&limit=10001", "?from=1&to=2&x=1"})
    EXPECT_EQ(get(std::string("diff") + query).status, 400) << query;
}

// Whatever the node says, an answer is what was promised or an error.
TEST(SnapshotJson, RefusesWhatIsNone) {
  const JsonObject good = {{"number", 3},
                           {"parent", 2},
                           {"kind", "disk"},
                           {"cause", "schedule"},
                           {"created_at", "2026-01-31T12:00:00.000Z"},
                           {"quiesced", false},
                           {"name", "n"},
                           {"pinned", true},
                           {"published", false},
                           {"on_lineage", true},
                           {"used_by", JsonArray()},
                           {"memory_bytes", 0},
                           {"dirty_bytes", 0},
                           {"written_bytes", 0},
                           {"stop_window_us", 0},
                           {"exclusive_bytes", 5}};
  ASSERT_TRUE(snapshot_json(good));
  EXPECT_EQ(snapshot_json(good)->at("exclusiveBytes"), 5);
  const auto without = [&](std::string_view key, Json value) {
    JsonObject bad = good;
    bad[key] = std::move(value);
    const auto made = snapshot_json(bad);
    EXPECT_FALSE(made) << key;
    if (!made) EXPECT_EQ(made.error().code, Code::internal) << key;
  };
  without("number", -1);
  without("number", "3");
  without("kind", "half");
  without("cause", "because");
  without("created_at", "yesterday");
  without("name", Json(std::string_view(std::string(65, 'x'))));
  without("used_by", Json(JsonArray{"<b>"}));
  without("used_by", "all");
  without("pinned", 1);
  without("memory_bytes", nullptr);
  without("exclusive_bytes", -5);
}

}  // namespace
}  // namespace space::control
