// Virtual machines that die: what clients see, what the node is given, what is kept and what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class RecoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    plane.connect_node();
    id = plane.create(R"({"templateID":"base","timeout":600})");
  }

  store::Sandbox row() { return **plane.run(plane.repository().find_sandbox(id)); }
  FakeNode::Sandbox& on_node() { return plane.node().sandboxes.at(id); }
  int who() { return plane.send(TestPlane::to_sandbox("GET", "/who", id)).status; }
  Answer get() { return plane.api("GET", "/sandboxes/" + id); }
  Answer inspect() { return plane.api("GET", "/v1/sandboxes/" + id); }
  std::string recovery() const { return "/v1/sandboxes/" + id + "/recovery"; }
  Answer recover() { return plane.api("POST", recovery()); }
  std::size_t listed() { return parse_json(plane.api("GET", "/v2/sandboxes").body)->as_array().size(); }
  void until(State state) {
    plane.run_until([&] { return row().state == state; });
  }
  // It could not be brought back, or too often.
  void fail_and_keep(std::string reason) {
    on_node().disk_kept = true;
    plane.node().report(id, State::failed, std::move(reason));
  }
  Wall in(std::int64_t seconds) const { return plane.clock.wall() + std::chrono::seconds(seconds); }
  void let_go() {
    plane.node().moves_hang = false;
    plane.node().wake();
  }

  TestPlane plane;
  std::string id;
};

TEST_F(RecoveryTest, TheNodeIsGivenItsTokenAndRequestsWait) {
  const store::Sandbox before = row();
  plane.clock.advance(Millis(60'000));
  plane.node().moves_hang = true;
  plane.node().crash(id, "its virtual machine was killed by signal 9");
  plane.run_until([&] { return plane.node().moves.size() == 1; });
  EXPECT_EQ(row().state, State::recovering);
  EXPECT_EQ(get().status, 200);
  EXPECT_EQ(*require_text(get().json(), "state"), "running");
  EXPECT_EQ(*require_text(get().json(), "stateDetail"), "recovering");
  EXPECT_EQ(listed(), 1U);
  EXPECT_THAT(plane.api("GET", recovery()).body, HasSubstr("signal 9"));
  const auto caller = plane.begin(TestPlane::to_sandbox("GET", "/who", id));
  let_go();
  EXPECT_EQ(plane.finish(*caller).status, 200);
  EXPECT_EQ(plane.node().moves.front(), "resume " + id);
  EXPECT_EQ(on_node().resumed_with.at("access_token"), Json(before.access_token));
  EXPECT_EQ(on_node().resumed_with.at("default_user"), "user");
  EXPECT_EQ(row().state, State::running);
  EXPECT_EQ(row().reason, "");
  // Its life is the same one.
  EXPECT_EQ(row().end_at, before.end_at);
  EXPECT_EQ(row().started_at, before.started_at);
  EXPECT_EQ(plane.node().moves.size(), 1U);
}

TEST_F(RecoveryTest, FromWhichPointIsTold) {
  EXPECT_TRUE(plane.api("GET", recovery()).json().at("recovered").is_null());
  on_node().recovered =
      JsonObject{{"at", "2026-01-31T12:00:00.000Z"},
                 {"from", {{"kind", "full"}, {"number", 4}, {"created_at", "2026-01-31T11:00:00.000Z"}}},
                 {"cause", "killed by signal 9"},
                 {"count", 2}};
  for (const Answer& answer : {plane.api("GET", recovery()), inspect()}) {
    const JsonObject recovered = answer.json().at("recovered").as_object();
    EXPECT_EQ(recovered.at("count"), 2);
    EXPECT_EQ(recovered.at("cause"), "killed by signal 9");
    EXPECT_EQ(recovered.at("from"),
              (JsonObject{{"kind", "full"}, {"number", 4}, {"createdAt", "2026-01-31T11:00:00.000Z"}}));
  }
  EXPECT_EQ(inspect().json().at("generationCounter"), 4);
  on_node().recovered.get_object()["from"].get_object()["kind"] = "memory";
  EXPECT_EQ(plane.api("GET", recovery()).status, 500);
}

TEST_F(RecoveryTest, ThePolicyIsKept) {
  EXPECT_EQ(plane.api("GET", recovery()).json().at("policy"), "disk");
  const Answer set = plane.api("PUT", recovery(), R"({"policy":"checkpoint"})");
  EXPECT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json().at("policy"), "checkpoint");
  EXPECT_EQ(on_node().recovery, "checkpoint");
  for (const char* body :
       {"", "{}", R"({"policy":"always"})", R"({"policy":1})", R"({"policy":"disk","x":1})"})
    EXPECT_EQ(plane.api("PUT", recovery(), body).status, 400) << body;
  EXPECT_EQ(plane.api("GET", recovery()).json().at("policy"), "checkpoint");
}

// By itself, from a checkpoint: there is nothing to be given.
TEST_F(RecoveryTest, ANodeThatNeedsNothingIsWatched) {
  const Wall end_at = row().end_at;
  plane.node().report(id, State::recovering, "its virtual machine was killed by signal 9");
  until(State::recovering);
  on_node().state = State::running;
  until(State::running);
  EXPECT_TRUE(plane.node().moves.empty());
  EXPECT_EQ(row().end_at, end_at);
  EXPECT_EQ(who(), 200);
}

TEST_F(RecoveryTest, ANodeWithoutRoomIsAskedAgain) {
  plane.node().move_error = Error{Code::exhausted, "no memory is left to promise"};
  plane.node().crash(id, "killed");
  plane.run_until([&] { return !plane.node().moves.empty(); });
  plane.node().move_error.reset();
  until(State::running);
  EXPECT_GE(plane.node().moves.size(), 2U);
  EXPECT_TRUE(plane.node().deleted.empty());
}

TEST_F(RecoveryTest, AFailureWithItsDiskIsNoEnd) {
  fail_and_keep("its virtual machine died 4 times in 10 minutes");
  until(State::failed);
  EXPECT_FALSE(row().ended_at);
  // E2B clients: gone, and why.
  EXPECT_EQ(get().status, 404);
  EXPECT_THAT(get().message(), HasSubstr("died 4 times"));
  EXPECT_THAT(get().message(), HasSubstr(recovery()));
  EXPECT_EQ(listed(), 0U);
  EXPECT_EQ(who(), 502);
  EXPECT_EQ(plane.api("POST", "/v2/sandboxes/" + id + "/connect", "{}").status, 404);
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 404);
  // Ours: what it is, and what is to be done.
  EXPECT_EQ(inspect().json().at("stateDetail"), "failed");
  EXPECT_EQ(inspect().json().at("diskKept"), true);
  EXPECT_THAT(*require_text(inspect().json(), "reason"), HasSubstr("died 4 times"));
  EXPECT_EQ(plane.api("GET", recovery()).json().at("state"), "failed");
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + id + "/snapshots").status, 200);
  const Answer snapshot = plane.api("POST", "/v1/sandboxes/" + id + "/snapshots");
  EXPECT_EQ(snapshot.status, 409);
  EXPECT_THAT(snapshot.message(), HasSubstr(recovery()));
  // Nothing of it goes, however long it lies there.
  plane.clock.advance(Millis(10 * 24 * 3600 * 1000LL));
  plane.sandboxes().expire_due();
  plane.restart();
  plane.sandboxes().expire_due();
  plane.connect_node();
  EXPECT_EQ(row().state, State::failed);
  EXPECT_FALSE(row().ended_at);
  EXPECT_TRUE(plane.node().deleted.empty());
  EXPECT_TRUE(plane.node().sandboxes.contains(id));
}

TEST_F(RecoveryTest, AFailureWithNothingKeptIsAnEnd) {
  plane.node().report(id, State::failed, "killed, and its policy is none");
  plane.run_until([&] { return row().ended_at && !plane.node().sandboxes.contains(id); });
  EXPECT_EQ(inspect().status, 404);
  EXPECT_THAT(inspect().message(), HasSubstr("its policy is none"));
  EXPECT_EQ(recover().status, 404);
}

TEST_F(RecoveryTest, AskedToItIsBroughtBack) {
  const std::string token = row().access_token;
  fail_and_keep("died too often");
  until(State::failed);
  plane.clock.advance(Millis(3'600'000));
  const Answer answer = recover();
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("state"), "running");
  EXPECT_TRUE(answer.json().at("reason").is_null());
  EXPECT_EQ(on_node().resumed_with.at("access_token"), Json(token));
  EXPECT_EQ(row().end_at, in(600));
  EXPECT_EQ(who(), 200);
  // Nothing happens to one that did not fail.
  const std::size_t calls = plane.node().lineage_calls.size();
  EXPECT_EQ(recover().status, 200);
  EXPECT_EQ(plane.node().lineage_calls.size(), calls);
  EXPECT_EQ(plane.node().moves.size(), 1U);
}

TEST_F(RecoveryTest, AHundredWhoAskStartOne) {
  fail_and_keep("died too often");
  until(State::failed);
  plane.node().moves_hang = true;
  std::vector<std::unique_ptr<TestPlane::Sending>> callers;
  for (int i = 0; i < 100; ++i) callers.push_back(plane.begin_api("POST", recovery()));
  plane.run_until([&] { return plane.node().moves.size() == 1; });
  let_go();
  for (const auto& each : callers) EXPECT_EQ(plane.finish(*each).status, 200);
  EXPECT_EQ(plane.node().moves.size(), 1U);
}

TEST_F(RecoveryTest, WhatCannotBeBroughtBackSaysWhy) {
  fail_and_keep("died too often");
  until(State::failed);
  plane.node().move_error = Error{Code::internal, "the guest did not start"};
  const auto recovering = plane.begin_api("POST", recovery());
  plane.run_until([&] { return plane.node().moves.size() == 1; });
  EXPECT_EQ(plane.finish(*recovering).status, 500);
  EXPECT_EQ(row().state, State::recovering);  // the node still waits for it
  on_node().awaits_init = false;
  fail_and_keep("it does not boot");
  until(State::failed);
  plane.node().move_error.reset();
  EXPECT_EQ(row().reason, "it does not boot");
  EXPECT_EQ(recover().status, 200);
}

TEST_F(RecoveryTest, ItMayBeFineAgainAsWhatItWas) {
  EXPECT_EQ(plane.api("POST", "/v1/sandboxes/" + id + "/snapshots").status, 201);
  fail_and_keep("it does not boot");
  until(State::failed);
  plane.clock.advance(Millis(3'600'000));
  const std::string rollback = "/v1/sandboxes/" + id + "/rollback";
  EXPECT_EQ(plane.api("POST", rollback, R"({"snapshot":9})").status, 404);
  EXPECT_EQ(row().state, State::failed);
  EXPECT_EQ(row().reason, "it does not boot");
  EXPECT_EQ(plane.api("POST", rollback, R"({"snapshot":1})").status, 200);
  EXPECT_EQ(row().state, State::running);
  EXPECT_EQ(row().end_at, in(600));
  EXPECT_EQ(who(), 200);
}

TEST_F(RecoveryTest, DeletedAllOfItGoes) {
  fail_and_keep("died too often");
  until(State::failed);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_THAT(plane.node().deleted, Contains(id));
  EXPECT_TRUE(row().ended_at);
  EXPECT_EQ(inspect().status, 404);
}

TEST_F(RecoveryTest, ADeletionDuringARecoveryWins) {
  plane.node().moves_hang = true;
  plane.node().crash(id, "killed");
  plane.run_until([&] { return plane.node().moves.size() == 1; });
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  let_go();
  plane.run_until([&] { return row().ended_at.has_value(); });
  EXPECT_EQ(row().state, State::deleted);
}

TEST_F(RecoveryTest, ATimeoutThatPassesMeanwhileStillCounts) {
  const std::string pausing = plane.create(R"({"templateID":"base","timeout":600,"autoPause":true})");
  const auto row_of = [&] { return **plane.run(plane.repository().find_sandbox(pausing)); };
  plane.node().moves_hang = true;
  plane.node().crash(id, "killed");
  plane.node().crash(pausing, "killed");
  plane.run_until([&] { return plane.node().moves.size() == 2; });
  plane.clock.advance(Millis(601'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return row().ended_at.has_value(); });
  let_go();
  plane.run_until([&] { return row_of().state == State::running; });
  plane.sandboxes().expire_due();
  plane.run_until([&] { return row_of().state == State::paused; });
}

struct Crash {
  State of_row;
  Wanted wanted;
  bool failed_on_node;
};
class RecoveryCrash : public RecoveryTest, public testing::WithParamInterface<Crash> {};

// A kill -9 of the control plane before it heard of the death, before it gave the token, and before the node
// heard of a recovery that somebody asked for.
TEST_P(RecoveryCrash, Converges) {
  const Crash crash = GetParam();
  EXPECT_TRUE(plane.run(
      plane.repository().set_state(id, {.state = crash.of_row, .wanted = crash.wanted, .reason = "died"})));
  plane.restart();
  on_node().state = crash.failed_on_node ? State::failed : State::recovering;
  on_node().disk_kept = crash.failed_on_node;
  on_node().awaits_init = !crash.failed_on_node;
  plane.connect_node();
  if (crash.failed_on_node) {
    until(State::failed);
    EXPECT_EQ(recover().status, 200);
  }
  until(State::running);
  EXPECT_EQ(who(), 200);
  EXPECT_GT(row().end_at, plane.clock.wall());
  EXPECT_TRUE(plane.node().deleted.empty());
}

INSTANTIATE_TEST_SUITE_P(Points, RecoveryCrash,
                         testing::Values(Crash{State::running, Wanted::running, false},
                                         Crash{State::recovering, Wanted::running, false},
                                         Crash{State::resuming, Wanted::running, false},
                                         Crash{State::pausing, Wanted::paused, false},
                                         Crash{State::failed, Wanted::running, false},
                                         Crash{State::recovering, Wanted::running, true},
                                         Crash{State::running, Wanted::running, true}),
                         [](const auto& info) {
                           return fmt::format("{}{}", to_string(info.param.of_row),
                                              info.param.failed_on_node ? "_failed_on_node" : "");
                         });

TEST_F(RecoveryTest, ACreateThatCameToNothingIsNotKept) {
  EXPECT_TRUE(plane.run(plane.repository().set_state(id, {.state = State::creating})));
  plane.restart();
  on_node().state = State::failed;
  on_node().disk_kept = true;
  plane.connect_node();
  plane.run_until([&] { return row().ended_at && !plane.node().sandboxes.contains(id); });
}

TEST_F(RecoveryTest, OneThatRestedGoesOnRestingWhereTheNodeSaysSo) {
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
  plane.node().report(id, State::stopped, "its virtual machine died while it was paused");
  until(State::stopped);
  EXPECT_EQ(plane.node().moves.size(), 1U);
  EXPECT_EQ(*require_text(get().json(), "state"), "paused");
}

}  // namespace
}  // namespace space::control
