// Forks: one snapshot, many children, each for itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/sha256.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

class ForkTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }
  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  JsonArray list(const Answer& answer) {
    EXPECT_EQ(answer.status, 201) << answer.body;
    const auto parsed = parse_json(answer.body);
    return parsed && parsed->is_array() ? parsed->get_array() : JsonArray();
  }
  Answer ask(const std::string& id, std::string body = "{}") {
    return plane.api("POST", "/sandboxes/" + id + "/fork", std::move(body));
  }
  Answer ask_v1(const std::string& id, std::string body = "{}") {
    return plane.api("POST", "/v1/sandboxes/" + id + "/fork", std::move(body));
  }
  static std::string text(const Json& entry, const char* key) {
    const auto sandbox = object_member(entry.as_object(), "sandbox");
    return sandbox && *sandbox ? require_text(**sandbox, key).value_or("") : "";
  }
  std::vector<std::string> ids(const JsonArray& entries) {
    std::vector<std::string> all;
    for (const Json& entry : entries) all.push_back(text(entry, "sandboxID"));
    return all;
  }
  const JsonObject& request_of(const std::string& id) { return plane.node().sandboxes.at(id).request; }
  void rest(const std::string& id, const char* route) {
    const Answer answer = plane.api("POST", route, "");
    ASSERT_EQ(answer.status, 204) << answer.body;
    ASSERT_TRUE(rests(row(id).state));
  }

  TestPlane plane;
};

TEST_F(ForkTest, ChildrenInheritAndAreTheirOwn) {
  const std::string parent = plane.create(
      R"({"templateID":"base","timeout":600,"metadata":{"a":"b"},"autoPause":true,"autoResume":{"enabled":true},)"
      R"("network":{"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"]},"pausePolicy":{"idlePauseSeconds":60},)"
      R"("schedule":"default","recovery":"checkpoint"})");
  const store::Sandbox before = row(parent);
  plane.clock.advance(Millis(1000));
  const JsonArray entries = list(ask(parent, R"({"count":3})"));
  ASSERT_EQ(entries.size(), 3U);
  std::set<std::string> seen = {parent}, tokens = {before.access_token}, traffic = {before.traffic_token};
  for (const Json& entry : entries) {
    EXPECT_FALSE(entry.as_object().contains("error"));
    const std::string id = text(entry, "sandboxID");
    EXPECT_TRUE(is_sandbox_id(id));
    EXPECT_TRUE(seen.insert(id).second);
    EXPECT_TRUE(tokens.insert(text(entry, "envdAccessToken")).second);
    EXPECT_TRUE(traffic.insert(text(entry, "trafficAccessToken")).second);
    EXPECT_EQ(text(entry, "envdAccessToken").size(), 32U);
    const store::Sandbox child = row(id);
    EXPECT_EQ(child.state, State::running);
    EXPECT_EQ(child.template_id, before.template_id);
    EXPECT_EQ(child.template_digest, before.template_digest);
    EXPECT_EQ(child.shape, before.shape);
    EXPECT_EQ(child.options.metadata, before.options.metadata);
    EXPECT_EQ(child.options.network, before.options.network);
    EXPECT_TRUE(child.lifecycle.pause_on_timeout);
    EXPECT_TRUE(child.lifecycle.auto_resume);
    EXPECT_EQ(child.policy, before.policy);
    EXPECT_EQ(child.schedule, default_schedule());
    EXPECT_EQ(child.recovery, RecoveryPolicy::checkpoint);
    EXPECT_EQ(child.default_user, before.default_user);
    EXPECT_EQ(child.origin, (SnapshotId{parent, 1}));
    EXPECT_EQ(child.end_at, plane.clock.wall() + std::chrono::seconds(300));
    const JsonObject& asked = request_of(id);
    EXPECT_EQ(to_text(asked.at("from")), fmt::format(R"({{"sandbox":"{}","number":1}})", parent));
    EXPECT_EQ(asked.at("recovery"), "checkpoint");
    EXPECT_TRUE(asked.contains("schedule"));
    EXPECT_EQ(*require_text(asked, "access_token"), text(entry, "envdAccessToken"));
    EXPECT_EQ(to_text(asked.at("env")), "{}");
  }
  ASSERT_EQ(plane.node().snapshot_calls.size(), 1U);
  EXPECT_EQ(plane.node().snapshot_calls[0].at("cause"), "fork");
  const store::Sandbox after = row(parent);
  EXPECT_EQ(after.end_at, before.end_at);
  EXPECT_EQ(after.generation, before.generation);
  EXPECT_EQ(after.access_token, before.access_token);
}

TEST_F(ForkTest, AnOpenSandboxHasOpenChildren) {
  const Answer made = plane.api("POST", "/sandboxes", R"({"templateID":"base"})");
  const JsonArray entries = list(ask(*require_text(made.json(), "sandboxID")));
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_FALSE(entries[0].at("sandbox").as_object().contains("envdAccessToken"));
}

TEST_F(ForkTest, ATimeoutIsTheChildrens) {
  const std::string parent = plane.create();
  const JsonArray entries = list(ask(parent, R"({"timeout":42})"));
  EXPECT_EQ(row(text(entries.at(0), "sandboxID")).timeout_s, 42);
  EXPECT_EQ(ask(parent, R"({"timeout":0})").status, 400);
  EXPECT_EQ(ask(parent, R"({"timeout":99999})").status, 400);
}

TEST_F(ForkTest, ACountThatCannotBeIsRefusedBeforeAnythingHappens) {
  const std::string parent = plane.create();
  for (const char* wrong : {R"({"count":0})", R"({"count":101})", R"({"count":-1})", R"({"count":"2"})",
                            R"({"count":1.5})", "[]", "x"}) {
    const Answer answer = ask(parent, wrong);
    EXPECT_EQ(answer.status, 400) << wrong << answer.body;
    EXPECT_EQ(answer.json().at("code"), 400);
    EXPECT_EQ(ask_v1(parent, wrong).status, 400) << wrong;
  }
  EXPECT_THAT(ask(parent, R"({"count":101})").message(), HasSubstr("between 1 and 100"));
  EXPECT_TRUE(plane.node().snapshot_calls.empty());
  EXPECT_EQ(list(plane.send([&] {
              auto head = TestPlane::request("POST", "/sandboxes/" + parent + "/fork", "");
              head.fields.add("X-API-Key", plane.api_key);
              return head;
            }()))
                .size(),
            1U);
}

TEST_F(ForkTest, EachChildFailsByItself) {
  const std::string parent = plane.create();
  const std::size_t first = plane.node().created.size();
  plane.node().refuse_create = [first](std::size_t nth) -> std::optional<Error> {
    if (nth == first + 1) return Error{Code::exhausted, "the node has no memory left. Delete sandboxes"};
    if (nth == first + 3) return Error{Code::unavailable, "it does not start"};
    return std::nullopt;
  };
  const JsonArray entries = list(ask(parent, R"({"count":4})"));
  ASSERT_EQ(entries.size(), 4U);
  std::map<std::int64_t, int> codes;
  std::string no_memory;
  for (const Json& entry : entries) {
    const auto error = object_member(entry.as_object(), "error");
    ASSERT_TRUE(error);
    ++codes[*error == nullptr ? 0 : (*error)->at("code").as_int64()];
    if (*error != nullptr && require_text(**error, "message")->contains("memory"))
      no_memory = *require_text(**error, "message");
  }
  EXPECT_EQ(codes, (std::map<std::int64_t, int>{{0, 2}, {503, 2}}));
  EXPECT_THAT(no_memory, HasSubstr("no memory left. Delete sandboxes"));
  EXPECT_EQ(plane.run(plane.repository().unfinished_sandboxes())->size(), 3U);
  EXPECT_EQ(plane.node().sandboxes.size(), 3U);
}

TEST_F(ForkTest, WhatRestsIsForkedByOurOwnRouteOnly) {
  const std::string paused = plane.create(), stopped = plane.create();
  rest(paused, ("/sandboxes/" + paused + "/pause").c_str());
  rest(stopped, ("/v1/sandboxes/" + stopped + "/stop").c_str());
  for (const std::string& id : {paused, stopped}) {
    const Answer refused = ask(id);
    EXPECT_EQ(refused.status, 409);
    EXPECT_THAT(refused.message(), HasSubstr("/v1/sandboxes/"));
    const State before = row(id).state;
    EXPECT_EQ(list(ask_v1(id)).size(), 1U);
    EXPECT_EQ(row(id).state, before);
  }
  EXPECT_EQ(plane.node().snapshot_calls.size(), 2U);
}

TEST_F(ForkTest, UnknownAndForeignSandboxesAreNotThere) {
  const std::string parent = plane.create();
  EXPECT_EQ(ask(new_sandbox_id()).status, 404);
  const std::string foreign = "e2b_" + std::string(40, 'f');
  ASSERT_TRUE(plane.run(plane.repository().add_team({"t2", "other"})));
  ASSERT_TRUE(plane.run(plane.repository().add_api_key({sha256_hex(foreign), "t2", "k", {}})));
  const std::string own = std::exchange(plane.api_key, foreign);
  EXPECT_EQ(ask(parent).status, 404);
  EXPECT_EQ(ask_v1(parent, R"({"snapshot":1})").status, 404);
  plane.api_key = own;
  EXPECT_EQ(ask(parent).status, 201);
}

TEST_F(ForkTest, OfASnapshotByItsNumber) {
  const std::string parent = plane.create();
  list(ask(parent));
  list(ask(parent));
  const JsonArray entries = list(ask_v1(parent, R"({"snapshot":1,"count":2})"));
  for (const std::string& id : ids(entries)) EXPECT_EQ(row(id).origin, (SnapshotId{parent, 1}));
  EXPECT_EQ(plane.node().snapshot_calls.size(), 2U);
  const Answer unknown = ask_v1(parent, R"({"snapshot":9})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.message(), HasSubstr("has no snapshot 9"));
  for (const char* wrong : {R"({"snapshot":0})", R"({"snapshot":"1"})"})
    EXPECT_EQ(ask_v1(parent, wrong).status, 400) << wrong;
  plane.node().sandboxes.at(parent).snapshots[0].as_object()["quiesced"] = false;
  const Answer unquiesced = ask_v1(parent, R"({"snapshot":1})");
  EXPECT_EQ(unquiesced.status, 409);
  EXPECT_THAT(unquiesced.message(), HasSubstr("Fork another"));
  // E2B's route has no such member.
  list(ask(parent, R"({"snapshot":9})"));
  EXPECT_EQ(plane.node().snapshot_calls.size(), 3U);
}

TEST_F(ForkTest, ASnapshotThatFailsIsNoFork) {
  const std::string parent = plane.create();
  struct Case {
    Code code;
    int status;
  };
  for (const Case one : {Case{Code::unavailable, 503}, Case{Code::exhausted, 503}, Case{Code::conflict, 409},
                         Case{Code::not_found, 404}}) {
    plane.node().snapshot_error = Error{one.code, "no room. Delete snapshots"};
    const Answer answer = ask(parent, R"({"count":5})");
    EXPECT_EQ(answer.status, one.status);
    EXPECT_THAT(answer.message(), HasSubstr("Delete snapshots"));
  }
  EXPECT_EQ(plane.node().created.size(), 1U);
  plane.node().snapshot_error.reset();
  EXPECT_EQ(list(ask(parent)).size(), 1U);
}

TEST_F(ForkTest, AGuestThatDoesNotStandStillAtOnceIsAskedAgain) {
  const std::string parent = plane.create();
  plane.node().snapshot_refusals = 2;
  EXPECT_EQ(list(ask(parent, R"({"count":2})")).size(), 2U);
  EXPECT_EQ(plane.node().snapshot_calls.size(), 3U);
  plane.node().snapshot_refusals = 100;
  EXPECT_EQ(ask(parent).status, 503);
  EXPECT_GT(plane.node().snapshot_refusals, 90);  // not for ever
}

TEST_F(ForkTest, ManyAreMadeAFewAtATime) {
  const std::string parent = plane.create();
  plane.node().create_hangs = true;
  const auto sending = plane.begin_api("POST", "/sandboxes/" + parent + "/fork", R"({"count":100})");
  plane.run_until([&] { return plane.node().created.size() == 1 + 8; });
  const std::string other = new_sandbox_id();
  plane.node().parked = {other};
  const auto create = plane.begin_api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  plane.run_until([&] { return plane.node().created.size() == 1 + 9; });
  EXPECT_EQ(plane.node().created.back(), other);  // not behind the hundred
  plane.node().create_hangs = false;
  plane.node().wake();
  EXPECT_EQ(plane.finish(*create).status, 201);
  const JsonArray entries = list(plane.finish(*sending));
  EXPECT_EQ(entries.size(), 100U);
  const auto all = ids(entries);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 100U);
  EXPECT_FALSE(std::ranges::count(all, ""));
}

TEST_F(ForkTest, GoesOnWhenWhoAskedLeaves) {
  const std::string parent = plane.create();
  plane.node().create_hangs = true;
  auto sending = plane.begin_api("POST", "/sandboxes/" + parent + "/fork", R"({"count":10})");
  plane.run_until([&] { return plane.node().created.size() == 1 + 8; });
  sending->leave();
  plane.node().create_hangs = false;
  plane.node().wake();
  plane.run_until([&] { return plane.node().sandboxes.size() == 11; });
}

// A kill -9 of the control plane in the middle: children whose create reached the node run, the others are
// over, and nothing is left that is in no row.
TEST_F(ForkTest, ACrashInTheMiddleSettlesAsCreatesDo) {
  const std::string parent = plane.create();
  plane.node().create_hangs = true;
  auto sending = plane.begin_api("POST", "/sandboxes/" + parent + "/fork", R"({"count":20})");
  plane.run_until([&] { return plane.node().created.size() == 1 + 8; });
  const std::vector<std::string> begun(plane.node().created.begin() + 1, plane.node().created.end());
  // It belongs to the loop that ends here.
  sending->leave();
  plane.run_until([&] { return sending->done(); });
  sending.reset();
  plane.restart();
  plane.node().sandboxes[begun[0]] = {State::running, "", {}};
  plane.node().sandboxes[begun[1]] = {State::creating, "", {}};
  plane.connect_node();
  plane.run_until([&] { return plane.run(plane.repository().unfinished_sandboxes())->size() == 2; });
  EXPECT_EQ(row(begun[0]).state, State::running);
  EXPECT_EQ(row(begun[0]).origin, (SnapshotId{parent, 1}));
  for (std::size_t i = 1; i < begun.size(); ++i) EXPECT_EQ(row(begun[i]).state, State::failed);
  plane.run_until([&] { return plane.node().sandboxes.size() == 2; });
  EXPECT_EQ(row(parent).state, State::running);
}

TEST_F(ForkTest, ChildrenDoNotDieWithTheirParent) {
  const std::string parent = plane.create();
  const auto children = ids(list(ask(parent, R"({"count":2})")));
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + parent).status, 204);
  for (const std::string& id : children) {
    EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 200);
    EXPECT_EQ(list(ask(id)).size(), 1U);
  }
}

}  // namespace
}  // namespace space::control
