// The whole sandbox manager: what a sandbox goes on from when its VMM died, at every moment of its life and
// of its recovery.
#include <gtest/gtest.h>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

class RecoveryTest : public NodeTest {
 protected:
  Answer order(const std::string& name, const std::string& id) {
    return call("sandbox/" + name, {{"id", id}, {"access_token", token}});
  }
  JsonObject info(const std::string& id) { return call("sandbox/get", {{"id", id}}).body; }
  char& mark(const std::string& id) {
    return reinterpret_cast<char&>(noded_->vm(id)->memory().bytes()[std::size_t{100} << 20]);
  }
  std::string& disk(const std::string& id) { return noded_->sandboxes.at(id).content; }
  std::uint64_t snapshot(const std::string& id, const char* kind = "full") {
    const Answer taken = call("sandbox/snapshot", {{"id", id}, {"kind", kind}});
    EXPECT_EQ(taken.status, 200) << to_text(taken.body);
    return taken.status == 200 ? taken.body.at("number").to_number<std::uint64_t>() : 0;
  }
  std::string with_policy(const char* policy) {
    const std::string id = created();
    EXPECT_EQ(call("sandbox/recovery", {{"id", id}, {"policy", policy}}).status, 200);
    return id;
  }
  void kill_vm(const std::string& id) {
    ASSERT_TRUE(noded_->vm(id));
    noded_->vm(id)->die(SIGKILL);
  }
  void until_state(const std::string& id, const std::string& state) {
    pump_until([&] { return state_of(id) == state; });
  }
  bool awaits(const std::string& id) { return info(id).at("awaits_init").as_bool(); }
  // It waits for its control plane, which has the token.
  void until_booted(const std::string& id) {
    pump_until([&] { return awaits(id); });
    EXPECT_EQ(state_of(id), "recovering");
    const Answer resumed = order("resume", id);
    ASSERT_EQ(resumed.status, 200) << to_text(resumed.body);
    EXPECT_EQ(resumed.body.at("state"), "running");
    EXPECT_EQ(echo(id, "back"), "back");
    EXPECT_EQ(noded_->vm(id)->init.at("access_token"), Json(token));
  }
  JsonObject recovered(const std::string& id) {
    const JsonObject object = info(id);
    return object.at("recovered").is_null() ? JsonObject() : object.at("recovered").as_object();
  }
  // The count of its recoveries, once it runs again.
  void until_recovered(const std::string& id, int count) {
    pump_until([&] {
      const JsonObject note = recovered(id);
      return !note.empty() && note.at("count").to_number<int>() == count && state_of(id) == "running";
    });
  }
  void expect_from(const std::string& id, const char* kind, int number, int count) {
    const JsonObject note = recovered(id);
    ASSERT_TRUE(note.contains("from")) << to_text(info(id));
    const JsonObject& from = note.at("from").as_object();
    EXPECT_EQ(from.at("kind"), kind);
    if (number != 0) EXPECT_EQ(from.at("number").to_number<int>(), number);
    EXPECT_EQ(note.at("count").to_number<int>(), count);
    EXPECT_FALSE(note.at("cause").as_string().empty());
  }
  // Of the history's recoveries, oldest first.
  std::vector<std::string> told(const std::string& id) {
    std::vector<std::string> texts;
    const JsonObject history = call("sandbox/history", {{"id", id}}).body;
    for (const Json& event : history.at("events").as_array())
      if (event.at("kind") == "recovery") texts.emplace_back(event.at("text").as_string());
    return texts;
  }
  std::string events_of(const std::string& id) {
    std::string all;
    for (const Json& event : call("events", {{"after", 0}}).body.at("events").as_array())
      if (event.at("id") == Json(id))
        all += std::string(event.at("state").as_string()) + ": " +
               std::string(event.at("reason").as_string()) + "\n";
    return all;
  }
  std::size_t snapshots_of(const std::string& id) {
    const auto found = noded_->snapshots.of.find(id);
    return found == noded_->snapshots.of.end() ? 0 : found->second.size();
  }
  void delete_all(const std::string& id) {
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
    expect_nothing_left();
    EXPECT_EQ(snapshots_of(id), 0u);
  }
  void start_with(std::vector<std::string> arguments) {
    kill_manager();
    more_arguments_ = std::move(arguments);
    start();
  }
};

TEST_F(RecoveryTest, ADeadOneBootsItsDiskOnceItsTokenIsThere) {
  const std::string id = created();
  disk(id) = "written";
  EXPECT_TRUE(recovered(id).empty());
  kill_vm(id);
  pump_until([&] { return awaits(id); });
  EXPECT_EQ(order("pause", "i" + std::string(19, '0')).status, 404);
  EXPECT_NE(events_of(id).find("recovering: "), std::string::npos) << events_of(id);
  // Who calls meanwhile waits, and is served.
  std::optional<Result<StreamPtr>> stream;
  spawn(loop_.get_executor(), "waits",
        detail::store_result(session_->connect(id + ":49983", Deadline::after(40s)), &stream));
  until_booted(id);
  pump_until([&] { return stream.has_value(); });
  ASSERT_TRUE(*stream) << stream->error().message;
  EXPECT_EQ(disk(id), "written");
  expect_from(id, "live_disk", 0, 1);
  EXPECT_EQ(info(id).at("generation_counter").to_number<int>(), 2);
  EXPECT_EQ(noded_->vm(id)->generation, 2);
  ASSERT_EQ(told(id).size(), 1u);
  EXPECT_NE(told(id)[0].find("recovered from its disk"), std::string::npos) << told(id)[0];
  stream.reset();
  delete_all(id);
}

TEST_F(RecoveryTest, ThePolicyNoneIsAnEnd) {
  const std::string id = with_policy("none");
  kill_vm(id);
  until_state(id, "failed");
  EXPECT_FALSE(info(id).at("disk_kept").as_bool());
  pump_until([&] { return noded_->holds_nothing(); });
  EXPECT_EQ(call("sandbox/recover", {{"id", id}}).status, 409);
  EXPECT_EQ(call("sandbox/recovery", {{"id", id}, {"policy", "often"}}).status, 400);
  delete_all(id);
}

TEST_F(RecoveryTest, TheNodesDefaultIsForThoseThatNameNone) {
  start_with({"--recovery", "none"});
  const std::string plain = created();
  JsonObject body = create_body(new_sandbox_id());
  body["recovery"] = "checkpoint";
  const Answer named = call("sandbox/create", body);
  ASSERT_EQ(named.status, 200);
  EXPECT_EQ(named.body.at("recovery"), "checkpoint");
  EXPECT_EQ(info(plain).at("recovery"), "none");
  body["id"] = new_sandbox_id();
  body["recovery"] = "some";
  EXPECT_EQ(call("sandbox/create", body).status, 400);
}

TEST_F(RecoveryTest, ACheckpointGoesOnByItselfAndTheDiskIsKeptAside) {
  const std::string id = with_policy("checkpoint");
  mark(id) = 'x';
  disk(id) = "then";
  ASSERT_EQ(snapshot(id), 1u);
  mark(id) = 'y';
  disk(id) = "now";
  kill_vm(id);
  until_recovered(id, 1);
  EXPECT_EQ(mark(id), 'x');
  EXPECT_EQ(disk(id), "then");
  EXPECT_EQ(echo(id, "up"), "up");
  expect_from(id, "full", 1, 1);
  const JsonObject after = info(id);
  EXPECT_EQ(after.at("head").to_number<int>(), 1);
  EXPECT_EQ(after.at("generation_counter").to_number<int>(), 2);
  const JsonArray kept = call("sandbox/snapshots", {{"id", id}}).body.at("snapshots").as_array();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].at("cause"), "before_recovery");
  EXPECT_EQ(kept[1].at("kind"), "disk");
  EXPECT_EQ(kept[1].at("on_lineage"), false);
  EXPECT_EQ(noded_->snapshots.finished(id, 2)->disk, "now");
  // Once more: what it had lost is kept each time.
  disk(id) = "later";
  kill_vm(id);
  until_recovered(id, 2);
  EXPECT_EQ(noded_->snapshots.finished(id, 3)->disk, "later");
  EXPECT_EQ(disk(id), "then");
  delete_all(id);
}

TEST_F(RecoveryTest, AnUnreadableCheckpointIsPassedOverAndThatIsSaid) {
  start_with({"--fault", "fail-restore-of=2"});
  const std::string id = with_policy("checkpoint");
  mark(id) = 'a';
  ASSERT_EQ(snapshot(id), 1u);
  mark(id) = 'b';
  ASSERT_EQ(snapshot(id), 2u);
  kill_vm(id);
  until_recovered(id, 1);
  EXPECT_EQ(mark(id), 'a');
  expect_from(id, "full", 1, 1);
  const auto texts = told(id);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_NE(texts[0].find("checkpoint 2 could not be restored"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("next is checkpoint 1"), std::string::npos) << texts[0];
  EXPECT_NE(events_of(id).find("checkpoint 2 could not be restored"), std::string::npos);
  // The control: without the fault it is the newest.
  start_with({});
  mark(id) = 'c';
  const auto newest = snapshot(id);
  mark(id) = 'd';
  kill_vm(id);
  until_recovered(id, 2);
  EXPECT_EQ(mark(id), 'c');
  expect_from(id, "full", static_cast<int>(newest), 2);
  delete_all(id);
}

TEST_F(RecoveryTest, WithoutAReadableCheckpointItsDiskBootsAsItWas) {
  start_with({"--fault", "fail-restore-of=1"});
  const std::string id = with_policy("checkpoint");
  disk(id) = "then";
  ASSERT_EQ(snapshot(id), 1u);
  disk(id) = "now";
  kill_vm(id);
  until_booted(id);
  EXPECT_EQ(disk(id), "now");
  expect_from(id, "live_disk", 0, 1);
  delete_all(id);
}

TEST_F(RecoveryTest, ADiskThatCannotBeKeptIsNotGivenUp) {
  const std::string id = with_policy("checkpoint");
  disk(id) = "then";
  ASSERT_EQ(snapshot(id), 1u);
  disk(id) = "now";
  noded_->refuse = [](noded::Verb verb) -> std::optional<Error> {
    if (verb != noded::Verb::snapshot_begin) return std::nullopt;
    return Error{Code::exhausted, "no room"};
  };
  kill_vm(id);
  until_booted(id);
  EXPECT_EQ(disk(id), "now");
  ASSERT_GE(told(id).size(), 1u);
  EXPECT_NE(told(id)[0].find("cannot be kept"), std::string::npos) << told(id)[0];
  noded_->refuse = [](noded::Verb) { return std::nullopt; };
  delete_all(id);
}

TEST_F(RecoveryTest, OneThatRestsRestsAgain) {
  const std::string on_disk = created();
  disk(on_disk) = "written";
  ASSERT_EQ(order("pause", on_disk).status, 200);
  kill_vm(on_disk);
  until_state(on_disk, "stopped");
  expect_from(on_disk, "live_disk", 0, 1);
  EXPECT_FALSE(awaits(on_disk));
  ASSERT_EQ(order("resume", on_disk).status, 200);
  EXPECT_EQ(disk(on_disk), "written");

  const std::string id = with_policy("checkpoint");
  mark(id) = 'x';
  ASSERT_EQ(snapshot(id), 1u);
  ASSERT_EQ(order("pause", id).status, 200);
  kill_vm(id);
  pump_until([&] { return !recovered(id).empty(); });
  EXPECT_EQ(state_of(id), "paused");
  EXPECT_EQ(info(id).at("memory"), "cold");
  expect_from(id, "full", 1, 1);
  ASSERT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(mark(id), 'x');
  EXPECT_EQ(call("sandbox/delete", {{"id", on_disk}}).status, 200);
  delete_all(id);
}

TEST_F(RecoveryTest, OneThatItsNodePausedRunsAgain) {
  const std::string id = created();
  ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"idle_pause_s", 1}}).status, 200);
  until_state(id, "paused");
  EXPECT_TRUE(info(id).at("idle").as_bool());
  ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"idle_pause_s", nullptr}}).status, 200);
  kill_vm(id);
  until_booted(id);
  delete_all(id);
}

TEST_F(RecoveryTest, ADeathInTheMiddleOfAMoveIsOneToo) {
  noded_->behaviour.dies_during = "quiesce";
  const std::string pausing = created();
  noded_->behaviour.dies_during = "wake";
  const std::string resuming = created();
  noded_->behaviour = {};
  EXPECT_GE(order("pause", pausing).status, 400);
  until_booted(pausing);
  ASSERT_EQ(order("pause", resuming).status, 200);
  EXPECT_GE(order("resume", resuming).status, 400);
  until_booted(resuming);
  EXPECT_EQ(call("sandbox/delete", {{"id", pausing}}).status, 200);
  delete_all(resuming);
}

TEST_F(RecoveryTest, ADaemonsDeathIsNoneOfTheSandbox) {
  const std::string alive = created();
  const std::string dead = created();
  const std::string rested = created();
  ASSERT_EQ(order("pause", rested).status, 200);
  disk(dead) = "written";
  kill_manager();
  noded_->vm(dead)->die(SIGSEGV);
  noded_->vm(rested)->die(SIGSEGV);
  start();
  until_booted(dead);
  EXPECT_EQ(disk(dead), "written");
  expect_from(dead, "live_disk", 0, 1);
  until_state(rested, "stopped");
  EXPECT_EQ(state_of(alive), "running");
  EXPECT_TRUE(recovered(alive).empty());
  EXPECT_EQ(echo(alive, "here"), "here");
  for (const std::string& id : {alive, dead}) EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  delete_all(rested);
}

TEST_F(RecoveryTest, AfterAHostsRebootEverythingComesBackFromThePool) {
  const std::string on_disk = created();
  const std::string at_checkpoint = with_policy("checkpoint");
  const std::string ends = with_policy("none");
  disk(on_disk) = "written";
  mark(at_checkpoint) = 'x';
  ASSERT_EQ(snapshot(at_checkpoint), 1u);
  kill_manager();
  for (auto& [id, held] : noded_->sandboxes) {
    held.vm.reset();
    held.slot = false;
  }
  start();
  until_booted(on_disk);
  EXPECT_EQ(disk(on_disk), "written");
  until_recovered(at_checkpoint, 1);
  EXPECT_EQ(mark(at_checkpoint), 'x');
  until_state(ends, "failed");
  for (const std::string& id : {on_disk, ends}) EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  delete_all(at_checkpoint);
}

TEST_F(RecoveryTest, ADiskThatIsGoneIsThatOfANewestSnapshot) {
  const std::string id = created();
  disk(id) = "first";
  ASSERT_EQ(snapshot(id, "disk"), 1u);
  disk(id) = "second";
  ASSERT_EQ(snapshot(id, "disk"), 2u);
  kill_manager();
  noded_->sandboxes.erase(id);
  start();
  until_booted(id);
  EXPECT_EQ(disk(id), "second");
  expect_from(id, "disk", 2, 1);
  delete_all(id);
}

TEST_F(RecoveryTest, OneThatKeepsDyingStaysDownWithItsDisk) {
  const std::string id = created();
  disk(id) = "written";
  for (int i = 1; i <= 3; ++i) {
    kill_vm(id);
    until_booted(id);
    expect_from(id, "live_disk", 0, i);
  }
  kill_vm(id);
  until_state(id, "failed");
  EXPECT_TRUE(info(id).at("disk_kept").as_bool());
  EXPECT_NE(std::string(info(id).at("reason").as_string()).find("more than 3 times"), std::string::npos);
  // Also over a restart.
  start_with({});
  EXPECT_EQ(state_of(id), "failed");
  EXPECT_TRUE(info(id).at("disk_kept").as_bool());
  pump_until([&] { return !noded_->sandboxes.at(id).vm && !noded_->sandboxes.at(id).slot; });
  ASSERT_TRUE(noded_->sandboxes.at(id).disk);
  EXPECT_EQ(call("sandbox/recover", {{"id", id}}).status, 200);
  until_booted(id);
  EXPECT_EQ(disk(id), "written");
  expect_from(id, "live_disk", 0, 4);
  // Asked for, the count of the last minutes begins anew.
  kill_vm(id);
  until_booted(id);
  delete_all(id);
}

TEST_F(RecoveryTest, ADiskThatDoesNotBootIsKept) {
  const std::string id = created();
  disk(id) = "written";
  noded_->behaviour.refuses = "init";
  kill_vm(id);
  for (int i = 0; i < 2; ++i) {
    pump_until([&] { return awaits(id); });
    EXPECT_GE(order("resume", id).status, 400);
  }
  until_state(id, "failed");
  EXPECT_TRUE(info(id).at("disk_kept").as_bool());
  EXPECT_NE(std::string(info(id).at("reason").as_string()).find("did not boot"), std::string::npos);
  noded_->behaviour = {};
  EXPECT_EQ(call("sandbox/recover", {{"id", id}}).status, 200);
  until_booted(id);
  EXPECT_EQ(disk(id), "written");
  delete_all(id);
}

TEST_F(RecoveryTest, DeletionWinsOverARecovery) {
  const std::string waiting = created();
  kill_vm(waiting);
  pump_until([&] { return awaits(waiting); });
  EXPECT_EQ(call("sandbox/delete", {{"id", waiting}}).status, 200);
  const std::string id = with_policy("checkpoint");
  ASSERT_EQ(snapshot(id), 1u);
  kill_vm(id);
  delete_all(id);
}

TEST_F(RecoveryTest, ACrashBetweenAnyTwoStepsLosesNothing) {
  for (const char* policy : {"disk", "checkpoint"})
    for (const char* point : {"recovery-begun", "recovery-kept", "recovery-restored", "recovery-booted"}) {
      const bool on_disk = std::string_view(policy) == "disk";
      const bool of_disk =
          std::string_view(point) != "recovery-kept" && std::string_view(point) != "recovery-restored";
      if (std::string_view(point) != "recovery-begun" && on_disk != of_disk) continue;
      SCOPED_TRACE(testing::Message() << policy << " " << point);
      start_with({});
      const std::string id = with_policy(policy);
      mark(id) = 'x';
      disk(id) = "then";
      ASSERT_EQ(snapshot(id), 1u);
      disk(id) = "now";
      start_with({"--fault", "crash-at=" + std::string(point)});
      until_state(id, "running");
      kill_vm(id);
      if (std::string_view(point) == "recovery-booted") {
        pump_until([&] { return awaits(id); });
        (void)order("resume", id);
      }
      pump_until([&] { return has_ended(); });
      start_with({});
      if (on_disk) {
        until_booted(id);
        EXPECT_EQ(disk(id), "now");
      } else {
        until_recovered(id, 1);
        EXPECT_EQ(mark(id), 'x');
        EXPECT_EQ(disk(id), "then");
        const auto* aside = noded_->snapshots.finished(id, 2);
        ASSERT_TRUE(aside);
        EXPECT_EQ(aside->disk, "now") << "what it was when it died, not what a recovery made of it";
      }
      EXPECT_EQ(recovered(id).at("count").to_number<int>(), 1);
      delete_all(id);
    }
}

TEST_F(RecoveryTest, AfterARollbackTheNewBranchIsGoneOnFrom) {
  const std::string id = with_policy("checkpoint");
  mark(id) = 'a';
  ASSERT_EQ(snapshot(id), 1u);
  mark(id) = 'b';
  ASSERT_EQ(snapshot(id), 2u);
  const Answer back = call("sandbox/rollback", {{"id", id}, {"number", 1}, {"access_token", token}});
  ASSERT_EQ(back.status, 200) << to_text(back.body);
  ASSERT_EQ(mark(id), 'a');
  kill_vm(id);
  until_recovered(id, 1);
  EXPECT_EQ(mark(id), 'a');
  expect_from(id, "full", 1, 1);
  // By time it would have been another: there are younger ones that are whole, and hold something else.
  const JsonArray all = call("sandbox/snapshots", {{"id", id}}).body.at("snapshots").as_array();
  std::size_t younger = 0;
  for (const Json& each : all)
    if (each.at("kind") == "full" && each.at("number").to_number<int>() > 1) ++younger;
  EXPECT_GE(younger, 2u) << "2 and what the rollback left";
  mark(id) = 'c';
  const auto newest = snapshot(id);
  mark(id) = 'd';
  kill_vm(id);
  until_recovered(id, 2);
  EXPECT_EQ(mark(id), 'c');
  expect_from(id, "full", static_cast<int>(newest), 2);
  delete_all(id);
}

}  // namespace
}  // namespace space
