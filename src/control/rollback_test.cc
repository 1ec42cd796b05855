// Rollback through the edge, with a fake node: one at a time, whoever asks, whatever dies in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RollbackTest : public testing::Test {
 protected:
  void SetUp() override {
    plane.connect_node();
    id = plane.create(R"({"templateID":"base","timeout":600})");
    EXPECT_EQ(plane.api("POST", snapshots()).status, 201);
    EXPECT_EQ(plane.api("POST", snapshots()).status, 201);
  }

  std::string snapshots() const { return "/v1/sandboxes/" + id + "/snapshots"; }
  std::string target() const { return "/v1/sandboxes/" + id + "/rollback"; }
  Answer roll_back(std::string body) { return plane.api("POST", target(), std::move(body)); }
  store::Sandbox row() { return **plane.run(plane.repository().find_sandbox(id)); }
  int who() { return plane.send(TestPlane::to_sandbox("GET", "/who", id)).status; }
  int pause() { return plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status; }
  std::size_t moves() { return plane.node().moves.size(); }
  FakeNode::Sandbox& on_node() { return plane.node().sandboxes.at(id); }
  Wall in(std::int64_t seconds) const { return plane.clock.wall() + std::chrono::seconds(seconds); }
  void let_go() {
    plane.node().moves_hang = false;
    plane.node().wake();
  }

  TestPlane plane;
  std::string id;
};

TEST_F(RollbackTest, ToASnapshotAndBack) {
  const store::Sandbox before = row();
  plane.clock.advance(Millis(60'000));
  const Answer answer = roll_back(R"({"snapshot":1})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("snapshot"), 1);
  EXPECT_EQ(answer.json().at("undo"), 3);
  const JsonObject sandbox = answer.json().at("sandbox").as_object();
  EXPECT_EQ(sandbox.at("sandboxID"), Json(id));
  EXPECT_EQ(sandbox.at("envdAccessToken"), Json(before.access_token));
  const JsonObject& asked = on_node().resumed_with;
  EXPECT_EQ(asked.at("access_token"), Json(before.access_token));
  EXPECT_EQ(asked.at("default_user"), "user");
  EXPECT_EQ(asked.at("default_workdir"), "/home/user");
  EXPECT_EQ(asked.at("number"), 1);
  EXPECT_FALSE(asked.contains("undo"));
  // It ran: its end and its start are what they were.
  EXPECT_EQ(row().state, State::running);
  EXPECT_EQ(row().end_at, before.end_at);
  EXPECT_EQ(row().started_at, before.started_at);
  EXPECT_EQ(who(), 200);

  const Answer undone = roll_back(R"({"undo":true})");
  ASSERT_EQ(undone.status, 200) << undone.body;
  EXPECT_EQ(undone.json().at("snapshot"), 3);
  EXPECT_EQ(undone.json().at("undo"), 4);
  EXPECT_EQ(on_node().resumed_with.at("undo"), true);
  EXPECT_FALSE(on_node().resumed_with.contains("number"));
  plane.clock.advance(Millis(541'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return row().ended_at.has_value(); });
}

TEST_F(RollbackTest, OneThatRestedComesBackRunningWithALifeOfItsOwn) {
  EXPECT_EQ(pause(), 204);
  plane.clock.advance(Millis(3'600'000));
  EXPECT_EQ(who(), 502);
  const Answer answer = roll_back(R"({"snapshot":2})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(row().state, State::running);
  EXPECT_EQ(row().wanted, Wanted::running);
  EXPECT_EQ(row().started_at, plane.clock.wall());
  EXPECT_EQ(row().end_at, in(600));
  EXPECT_EQ(who(), 200);
}

TEST_F(RollbackTest, BadRequests) {
  for (const char* body :
       {"", "{}", "[", R"({"snapshot":0})", R"({"snapshot":"1"})", R"({"snapshot":1,"undo":true})",
        R"({"undo":false})", R"({"undo":1})", R"({"number":1})", R"({"snapshot":1,"undo":false,"x":1})"})
    EXPECT_EQ(roll_back(body).status, 400) << body;
  EXPECT_EQ(moves(), 0U);
  EXPECT_EQ(roll_back(R"({"snapshot":1,"undo":false})").status, 200);
  EXPECT_EQ(moves(), 1U);
}

TEST_F(RollbackTest, WhatIsRefusedChangesNothing) {
  const store::Sandbox before = row();
  const Answer unknown = roll_back(R"({"snapshot":99})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.message(), HasSubstr("no such snapshot"));
  EXPECT_EQ(roll_back(R"({"undo":true})").status, 404);
  plane.node().move_error = Error{Code::conflict, "the snapshot was made on another machine type"};
  const Answer other = roll_back(R"({"snapshot":1})");
  EXPECT_EQ(other.status, 409);
  EXPECT_THAT(other.message(), HasSubstr("another machine type"));
  plane.node().move_error = Error{Code::exhausted, "the pool is full"};
  EXPECT_EQ(roll_back(R"({"snapshot":1})").status, 503);
  EXPECT_EQ(row().state, State::running);
  EXPECT_EQ(row().end_at, before.end_at);
  EXPECT_EQ(row().started_at, before.started_at);
  EXPECT_EQ(who(), 200);
  plane.node().move_error.reset();
  EXPECT_EQ(pause(), 204);
  EXPECT_EQ(roll_back(R"({"snapshot":99})").status, 404);
  EXPECT_EQ(row().state, State::paused);
  EXPECT_EQ(roll_back(R"({"snapshot":1})").status, 200);
}

TEST_F(RollbackTest, AHundredAreOne) {
  plane.node().moves_hang = true;
  std::vector<std::unique_ptr<TestPlane::Sending>> callers;
  for (int i = 0; i < 100; ++i) callers.push_back(plane.begin_api("POST", target(), R"({"snapshot":1})"));
  plane.run_until([&] { return on_node().state == State::resuming; });
  EXPECT_EQ(row().state, State::resuming);
  const auto caller = plane.begin(TestPlane::to_sandbox("GET", "/who", id));
  let_go();
  for (const auto& each : callers) {
    const Answer answer = plane.finish(*each);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json().at("undo"), 3);
  }
  EXPECT_EQ(plane.finish(*caller).status, 200);
  EXPECT_EQ(moves(), 1U);
  EXPECT_EQ(roll_back(R"({"snapshot":1})").json().at("undo"), 4);  // a later one is another one
  EXPECT_EQ(moves(), 2U);
}

TEST_F(RollbackTest, AHundredFailTogether) {
  plane.node().moves_hang = true;
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  plane.run_until([&] { return moves() == 1; });
  std::vector<std::unique_ptr<TestPlane::Sending>> callers;
  for (int i = 0; i < 20; ++i) callers.push_back(plane.begin_api("POST", target(), R"({"snapshot":77})"));
  let_go();
  for (const auto& each : callers) EXPECT_EQ(plane.finish(*each).status, 404);
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  EXPECT_EQ(moves(), 2U);
}

TEST_F(RollbackTest, OthersFollowOneAfterTheOther) {
  plane.node().moves_hang = true;
  const auto first = plane.begin_api("POST", target(), R"({"snapshot":1})");
  plane.run_until([&] { return moves() == 1; });
  const auto second = plane.begin_api("POST", target(), R"({"snapshot":2})");
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  let_go();
  EXPECT_EQ(plane.finish(*first).json().at("undo"), 3);
  EXPECT_EQ(plane.finish(*second).json().at("undo"), 4);
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  EXPECT_EQ(moves(), 3U);
}

TEST_F(RollbackTest, ADeletionWins) {
  plane.node().moves_hang = true;
  const auto rolling = plane.begin_api("POST", target(), R"({"snapshot":1})");
  plane.run_until([&] { return moves() == 1; });
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  let_go();
  EXPECT_EQ(plane.finish(*rolling).status, 404);
  EXPECT_TRUE(row().ended_at);
}

struct Crash {
  const char* name;
  State of_node;
  bool awaits_init;
};
class RollbackCrash : public RollbackTest, public testing::WithParamInterface<Crash> {};

// A kill -9 of the control plane when the node has not heard of it, is done, kept the state before and has
// not brought the other one back, or was restarted itself.
TEST_P(RollbackCrash, Converges) {
  const Wall end_at = row().end_at;
  EXPECT_TRUE(
      plane.run(plane.repository().set_state(id, {.state = State::resuming, .wanted = Wanted::running})));
  plane.restart();
  on_node().state = GetParam().of_node;
  on_node().awaits_init = GetParam().awaits_init;
  plane.connect_node();
  plane.run_until([&] { return row().state == State::running && on_node().state == State::running; });
  EXPECT_EQ(who(), 200);
  EXPECT_GE(row().end_at, end_at);
  EXPECT_TRUE(plane.node().deleted.empty());
  EXPECT_EQ(roll_back(R"({"snapshot":1})").status, 200);
}

INSTANTIATE_TEST_SUITE_P(Points, RollbackCrash,
                         testing::Values(Crash{"running", State::running, false},
                                         Crash{"paused", State::paused, false},
                                         Crash{"stopped", State::stopped, false},
                                         Crash{"recovering", State::recovering, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(RollbackTest, ANodeThatIsLostIsNotAskedTwice) {
  const store::Sandbox before = row();
  plane.node().loses_rollbacks = true;
  const Answer answer = roll_back(R"({"undo":true})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.message(), HasSubstr("/history"));
  EXPECT_EQ(moves(), 1U);
  plane.node().loses_rollbacks = false;
  plane.run_until([&] { return !plane.connected(); });
  plane.connect_node();
  plane.run_until([&] { return row().state == State::running; });
  EXPECT_EQ(row().end_at, before.end_at);
  EXPECT_EQ(moves(), 1U);
}

}  // namespace
}  // namespace space::control
