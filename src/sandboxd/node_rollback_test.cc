// The whole sandbox manager: going back to a snapshot and its undo, from every state, with every failure, and
// a crash at each verb and between any two steps.
#include <gtest/gtest.h>

#include "sandboxd/node_snapshot_fixture.h"

namespace space {
namespace {

class RollbackTest : public SnapshotTest {
 protected:
  static JsonObject to(const std::string& id, std::uint64_t number) {
    return {{"id", id}, {"number", number}, {"access_token", token}};
  }
  static JsonObject undo_of(const std::string& id) {
    return {{"id", id}, {"undo", true}, {"access_token", token}};
  }
  std::uint64_t rolled_back(const JsonObject& body) {
    const Answer answer = call("sandbox/rollback", body);
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    if (answer.status != 200) return 0;
    EXPECT_EQ(answer.body.at("sandbox").at("state"), "running");
    return answer.body.at("undo").to_number<std::uint64_t>();
  }
  // Snapshot 1 holds 'a', in memory and on disk; since then it is 'b'.
  std::string with_snapshot(const char* kind = "full") {
    const std::string id = created();
    mark(id) = 'a';
    disk(id) = "a";
    EXPECT_EQ(taken(id, {{"kind", kind}}), 1u);
    mark(id) = 'b';
    disk(id) = "b";
    return id;
  }
  void until_runs(const std::string& id) {
    pump_until([&] {
      if (state_of(id) == "recovering" && info(id).at("awaits_init").as_bool()) (void)order("resume", id);
      return state_of(id) == "running";
    });
    const auto vm = noded_->vm(id);
    ASSERT_TRUE(vm);
    pump_until([&] { return !vm->stands_still() && !vm->frozen; });
    EXPECT_EQ(echo(id, "hello"), "hello");
    EXPECT_EQ(vm->init.at("access_token"), Json(token));
  }
  int counter_of(const std::string& id) { return info(id).at("generation_counter").to_number<int>(); }
};

TEST_F(RollbackTest, AFullOneGoesOnFromTheMemoryOfThen) {
  const std::string id = with_snapshot();
  auto stream = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_TRUE(stream);
  EXPECT_EQ(echo_on(**stream, "works"), "works");
  const int before = counter_of(id);
  EXPECT_EQ(rolled_back(to(id, 1)), 2u);
  EXPECT_EQ(mark(id), 'a');
  EXPECT_EQ(disk(id), "a");
  EXPECT_GT(counter_of(id), before);
  EXPECT_EQ(noded_->vm(id)->generation, counter_of(id));
  until_runs(id);
  std::byte buffer[16];
  EXPECT_FALSE(run((*stream)->read(buffer)));  // of what was before
  EXPECT_EQ(head_of(id), 1u);
  EXPECT_EQ(listed(id, 2).at("cause"), "before_rollback");
  EXPECT_FALSE(on_lineage(id, 2));
  EXPECT_TRUE(on_lineage(id, 1));
  EXPECT_EQ(taken(id), 3u);
  EXPECT_EQ(listed(id, 3).at("parent").to_number<int>(), 1);
  EXPECT_NE(history_of(id).find("rollback: went back to full snapshot 1; what was before is 2"),
            std::string::npos)
      << history_of(id);
  delete_all(id);
}

TEST_F(RollbackTest, ADiskBootsAsItWas) {
  const std::string id = with_snapshot("disk");
  const int before = counter_of(id);
  EXPECT_EQ(rolled_back(to(id, 1)), 2u);
  EXPECT_EQ(disk(id), "a");
  EXPECT_EQ(mark(id), 0);
  EXPECT_GT(counter_of(id), before);
  until_runs(id);
  EXPECT_EQ(listed(id, 2).at("kind"), "full");  // what ran goes on, if it is undone
  disk(id) = "later";
  ASSERT_EQ(order("stop", id).status, 200);
  ASSERT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(disk(id), "later") << "it was put back once";
  delete_all(id);
}

TEST_F(RollbackTest, AnUndoCanBeUndone) {
  const std::string id = with_snapshot();
  EXPECT_EQ(rolled_back(to(id, 1)), 2u);
  EXPECT_EQ(mark(id), 'a');
  mark(id) = 'c';
  EXPECT_EQ(rolled_back(undo_of(id)), 3u);
  EXPECT_EQ(mark(id), 'b');
  EXPECT_EQ(disk(id), "b");
  EXPECT_EQ(head_of(id), 2u);
  EXPECT_FALSE(on_lineage(id, 3));
  restart();
  until_runs(id);
  EXPECT_EQ(rolled_back(undo_of(id)), 4u);
  EXPECT_EQ(mark(id), 'c');
  EXPECT_EQ(head_of(id), 3u);
  delete_all(id);
}

TEST_F(RollbackTest, FromEveryRestAndWhatItWasIsKept) {
  for (const char* kind : {"full", "disk"})
    for (const char* rest : {"hot", "cold", "stopped"}) {
      SCOPED_TRACE(testing::Message() << kind << " from " << rest);
      const std::string id = with_snapshot(kind);
      const bool stops = std::string_view(rest) == "stopped";
      if (std::string_view(rest) == "cold") go_cold(id);
      if (std::string_view(rest) == "hot") ASSERT_EQ(order("pause", id).status, 200);
      if (stops) ASSERT_EQ(order("stop", id).status, 200);
      EXPECT_EQ(rolled_back(to(id, 1)), 2u);
      EXPECT_EQ(disk(id), "a");
      EXPECT_EQ(listed(id, 2).at("cause"), "before_rollback");
      EXPECT_EQ(listed(id, 2).at("kind"), stops ? "disk" : "full");
      until_runs(id);
      rolled_back(undo_of(id));
      EXPECT_EQ(disk(id), "b");
      if (!stops) EXPECT_EQ(mark(id), 'b');
      delete_all(id);
    }
}

TEST_F(RollbackTest, WhatCannotBeChangesNothing) {
  const std::string id = with_snapshot();
  const auto vm = noded_->vm(id);
  const auto expect_refused = [&](const JsonObject& body, int status) {
    const Answer answer = call("sandbox/rollback", body);
    EXPECT_EQ(answer.status, status) << to_text(answer.body);
    EXPECT_EQ(noded_->vm(id), vm);
    EXPECT_FALSE(vm->stands_still() || vm->frozen);
    EXPECT_EQ(held(id), 1u);
    EXPECT_EQ(state_of(id), "running");
    EXPECT_EQ(mark(id), 'b');
  };
  expect_refused(to(id, 7), 404);
  expect_refused(undo_of(id), 409);
  expect_refused({{"id", id}, {"access_token", token}}, 400);
  expect_refused({{"id", id}, {"number", 1}, {"undo", true}, {"access_token", token}}, 400);
  expect_refused({{"id", id}, {"number", 1}}, 400);
  for (const auto verb : {noded::Verb::snapshot_open, noded::Verb::vmm_open_memory,
                          noded::Verb::snapshot_begin, noded::Verb::snapshot_finish}) {
    refuse(verb);
    expect_refused(to(id, 1), 500);
    refuse_nothing();
  }
  EXPECT_EQ(rolled_back(to(id, 1)), 2u);  // and it could be
  EXPECT_EQ(mark(id), 'a');
  delete_all(id);
}

TEST_F(RollbackTest, ATargetThatDoesNotGoOnLeavesItAsItWas) {
  for (const char* kind : {"full", "disk"}) {
    SCOPED_TRACE(kind);
    const std::string id = with_snapshot(kind);
    bool refused = false;
    noded_->refuse = [&](noded::Verb asked) -> std::optional<Error> {
      if (asked != noded::Verb::vmm_launch || std::exchange(refused, true)) return std::nullopt;
      return Error{Code::internal, "refused once"};
    };
    const Answer answer = call("sandbox/rollback", to(id, 1));
    EXPECT_EQ(answer.status, 500) << to_text(answer.body);
    EXPECT_TRUE(refused);
    refuse_nothing();
    until_runs(id);
    EXPECT_EQ(mark(id), 'b');
    EXPECT_EQ(disk(id), "b");
    EXPECT_EQ(head_of(id), 2u);
    EXPECT_EQ(call("sandbox/rollback", undo_of(id)).status, 409) << "there was none";
    EXPECT_NE(history_of(id).find("is again what it was"), std::string::npos) << history_of(id);
    delete_all(id);
  }
}

// After the crash it is on one of the two branches, and whatever happens then is on that one.
TEST_F(RollbackTest, KilledBetweenAnyTwoSteps) {
  struct {
    const char* point;
    bool went_back;
  } const crashes[] = {{"rollback-kept", false}, {"rollback-written", true}, {"rollback-restored", true}};
  for (const char* kind : {"full", "disk"})
    for (const auto& [point, went_back] : crashes) {
      SCOPED_TRACE(testing::Message() << kind << ", " << point);
      const std::string id = with_snapshot(kind);
      const std::string value = went_back ? "a" : "b";
      ASSERT_EQ(call("sandbox/recovery", {{"id", id}, {"policy", "checkpoint"}}).status, 200);
      restart({"--fault", std::string("crash-at=") + point});
      until_state(id, "running");
      crash_in("sandbox/rollback", to(id, 1));
      until_runs(id);
      EXPECT_EQ(disk(id), value);
      const bool full = std::string_view(kind) == "full";
      if (full || !went_back) EXPECT_EQ(mark(id), value[0]);
      EXPECT_EQ(head_of(id), 1u);
      pump_until([&] { return held(id) == (went_back ? 2u : 1u); });
      delete_all(id);
    }
}

// The youngest snapshot is one of the abandoned branch: whoever went by time would take it.
TEST_F(RollbackTest, ADeathAfterwardsIsRecoveredFromOnTheNewBranch) {
  const std::string id = with_snapshot();
  ASSERT_EQ(call("sandbox/recovery", {{"id", id}, {"policy", "checkpoint"}}).status, 200);
  const std::uint64_t abandoned = rolled_back(to(id, 1));
  const JsonArray all = list(id);
  const auto newest = std::ranges::max_element(all, {}, [](const Json& snapshot) {
    return std::pair(std::string(snapshot.at("created_at").as_string()),
                     snapshot.at("number").to_number<std::uint64_t>());
  });
  ASSERT_EQ(newest->at("number").to_number<std::uint64_t>(), abandoned);
  ASSERT_EQ(newest->at("on_lineage"), false);
  ASSERT_EQ(newest->at("kind"), "full");  // it could be restored
  mark(id) = 'd';
  noded_->vm(id)->die(SIGKILL);
  pump_until([&] { return !info(id).at("recovered").is_null() && state_of(id) == "running"; });
  const JsonObject from = info(id).at("recovered").at("from").as_object();
  EXPECT_EQ(from.at("number").to_number<int>(), 1);
  EXPECT_EQ(mark(id), 'a');
  until_runs(id);
  delete_all(id);
}

TEST_F(RollbackTest, KilledAtEachVerb) {
  int kills = 0, went = 0;
  for (const char* kind : {"full", "disk"})
    for (std::size_t at = 1; at <= 40; ++at)
      for (const bool done : {false, true}) {
        SCOPED_TRACE(testing::Message() << kind << ", verb " << at << (done ? " after" : " before"));
        const std::string id = with_snapshot(kind);
        const std::size_t before = noded_->verbs.size();
        bool killed = false;
        noded_->on_verb = [&](std::size_t nth, bool after) {
          if (nth != before + at || after != done) return;
          killed = true;
          ::kill(pid_, SIGKILL);
        };
        (void)call("sandbox/rollback", to(id, 1));
        noded_->on_verb = [](std::size_t, bool) {};
        restart();
        until_runs(id);
        const bool went_back = held(id) == 2 && !on_lineage(id, 2);
        kills += killed ? 1 : 0;
        went += killed && went_back ? 1 : 0;
        EXPECT_EQ(disk(id), went_back ? "a" : "b");
        if (std::string_view(kind) == "full" || !went_back) EXPECT_EQ(mark(id), went_back ? 'a' : 'b');
        delete_all(id);
        if (!killed) at = 100;  // it has no more verbs
      }
  EXPECT_GT(went, 10);          // after the commit
  EXPECT_GT(kills - went, 10);  // and before it
}

TEST_F(RollbackTest, DeletionWinsInItsMiddle) {
  for (const char* kind : {"full", "disk"}) {
    const std::string id = with_snapshot(kind);
    std::optional<Result<CallResponse>> answer;
    spawn(loop_.get_executor(), "rollback",
          detail::store_result(
              session_->call({"POST", "/node/sandbox/rollback", to_text(to(id, 1))}, Deadline::after(60s)),
              &answer));
    delete_all(id);
    pump_until([&] { return answer.has_value(); });
  }
}

}  // namespace
}  // namespace space
