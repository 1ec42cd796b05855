// The whole sandbox manager: pause, resume, stop, checkpoints and the pool; a crash at each verb and between
// any two steps of each.
#include <gtest/gtest.h>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

class RestTest : public NodeTest {
 protected:
  Answer order(const std::string& name, const std::string& id) {
    return call("sandbox/" + name, {{"id", id}, {"access_token", token}});
  }
  void keep_hot_for(const std::string& id, std::int64_t seconds) {
    ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"hot_keep_s", seconds}}).status, 200);
  }
  std::string memory_of(const std::string& id) {
    return std::string(call("sandbox/get", {{"id", id}}).body.at("memory").as_string());
  }
  JsonObject info(const std::string& id) { return call("sandbox/get", {{"id", id}}).body; }
  void until_memory(const std::string& id, const std::string& wanted) {
    pump_until([&] { return memory_of(id) == wanted; });
  }
  std::size_t snapshots_of(const std::string& id) {
    const auto found = noded_->snapshots.of.find(id);
    return found == noded_->snapshots.of.end() ? 0 : found->second.size();
  }
  // In the middle of its memory, where no guest of ours writes.
  char& mark(const std::string& id) {
    return reinterpret_cast<char&>(noded_->vm(id)->memory().bytes()[std::size_t{100} << 20]);
  }
  void mark_if_live(const std::string& id, char value) {
    if (noded_->vm(id)) mark(id) = value;
  }
  std::string cold(char value) {
    const std::string id = created();
    mark(id) = value;
    keep_hot_for(id, 0);
    EXPECT_EQ(order("pause", id).status, 200);
    until_memory(id, "cold");
    return id;
  }
  void delete_all(const std::string& id) {
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
    expect_nothing_left();
    EXPECT_EQ(snapshots_of(id), 0u);
  }
  // Whatever was interrupted: nobody has lost it, and it goes on with what it had.
  void expect_it_goes_on(const std::string& id, char value) {
    pump_until([&] {
      const std::string state = state_of(id);
      return state == "running" || state == "paused" || state == "stopped";
    });
    const bool was_stopped = memory_of(id) == "none";
    ASSERT_EQ(order("resume", id).status, 200) << to_text(info(id));
    const auto vm = noded_->vm(id);
    ASSERT_TRUE(vm);
    pump_until([&] { return !vm->stands_still() && !vm->frozen; });
    EXPECT_EQ(echo(id, "hello"), "hello");
    if (!was_stopped) EXPECT_EQ(mark(id), value);
  }
};

TEST_F(RestTest, AHotPauseStandsStillAndGoesOn) {
  const std::string id = created();
  const auto vm = noded_->vm(id);
  const Answer paused = order("pause", id);
  EXPECT_EQ(paused.status, 200);
  EXPECT_EQ(paused.body.at("state"), "paused");
  EXPECT_EQ(paused.body.at("memory"), "hot");
  EXPECT_TRUE(vm->stands_still());
  EXPECT_TRUE(vm->frozen);
  EXPECT_EQ(order("pause", id).status, 200);  // again: the same
  const Answer resumed = order("resume", id);
  EXPECT_EQ(resumed.body.at("state"), "running");
  EXPECT_EQ(resumed.body.at("memory"), "live");
  EXPECT_FALSE(vm->stands_still());
  EXPECT_FALSE(vm->frozen);
  EXPECT_EQ(vm->generation, 0);  // nothing was restored
  EXPECT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(echo(id, "there"), "there");
  EXPECT_EQ(vm->attaches, 1);  // the session outlives it
  delete_all(id);
}

TEST_F(RestTest, AnExplicitPauseCutsStreamsAndRefusesNewOnes) {
  const std::string id = created();
  auto stream = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_TRUE(stream);
  EXPECT_EQ(echo_on(**stream, "works"), "works");
  EXPECT_EQ(order("pause", id).status, 200);
  std::byte buffer[16];
  EXPECT_FALSE(run((*stream)->read(buffer)));  // reset, not ended
  EXPECT_NE(echo(id, "anybody").find("error"), std::string::npos);
  EXPECT_EQ(state_of(id), "paused");
  delete_all(id);
}

TEST_F(RestTest, AColdPauseHoldsNoVmAndComesBackAsItWas) {
  const std::string id = cold('x');
  pump_until([&] { return !noded_->sandboxes.at(id).vm && !noded_->sandboxes.at(id).slot; });
  EXPECT_EQ(snapshots_of(id), 1u);
  const Answer resumed = order("resume", id);
  ASSERT_EQ(resumed.status, 200) << to_text(resumed.body);
  const auto vm = noded_->vm(id);
  EXPECT_EQ(mark(id), 'x');
  EXPECT_EQ(vm->generation, 2);
  EXPECT_FALSE(vm->frozen);
  ASSERT_EQ(vm->wakes.size(), 1u);
  EXPECT_FALSE(vm->wakes[0].contains("sandbox_id"));  // it is who it was
  EXPECT_EQ(resumed.body.at("restored_from").as_object().at("number").to_number<int>(), 1);
  mark(id) = 'y';
  EXPECT_EQ(order("pause", id).status, 200);
  until_memory(id, "cold");
  pump_until([&] { return snapshots_of(id) == 1; });  // the one before served its turn
  EXPECT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(mark(id), 'y');
  delete_all(id);
}

TEST_F(RestTest, AHundredAtOnceStartOneResume) {
  const std::string id = cold('x');
  noded_->verbs.clear();
  std::vector<std::optional<Result<CallResponse>>> answers(100);
  const std::string body = to_text(JsonObject{{"id", id}, {"access_token", token}});
  for (auto& answer : answers)
    spawn(loop_.get_executor(), "resume",
          detail::store_result(session_->call({"POST", "/node/sandbox/resume", body}, Deadline::after(60s)),
                               &answer));
  pump_until([&] { return std::ranges::all_of(answers, [](const auto& a) { return a.has_value(); }); });
  for (const auto& answer : answers) EXPECT_EQ((*answer)->status, 200);
  EXPECT_EQ(std::ranges::count(noded_->verbs, noded::Verb::vmm_launch), 1);
  delete_all(id);
}

TEST_F(RestTest, AnIdlePauseIsOverWithTheFirstRequest) {
  const std::string id = created();
  EXPECT_EQ(call("sandbox/policy", {{"id", id}, {"idle_pause_s", 0}}).status, 400);
  ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"idle_pause_s", 1}}).status, 200);
  pump_until([&] { return state_of(id) == "paused"; });
  EXPECT_TRUE(info(id).at("idle").as_bool());
  EXPECT_EQ(echo(id, "hello"), "hello");  // no other word of the client's was needed
  EXPECT_EQ(state_of(id), "running");
  pump_until([&] { return state_of(id) == "paused"; });
  EXPECT_EQ(order("pause", id).status, 200);  // now for everybody
  EXPECT_FALSE(info(id).at("idle").as_bool());
  EXPECT_NE(echo(id, "hello").find("error"), std::string::npos);
  delete_all(id);
}

TEST_F(RestTest, AnOpenStreamIsUseAndForbidsTheIdlePause) {
  const std::string id = created();
  auto stream = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"idle_pause_s", 1}}).status, 200);
  const Deadline longer = Deadline::after(1500ms);
  while (!longer.passed()) ASSERT_EQ(state_of(id), "running");
  (*stream)->reset();
  pump_until([&] { return state_of(id) == "paused"; });
  delete_all(id);
}

TEST_F(RestTest, StoppedItKeepsItsDiskAndBoots) {
  const std::string id = created();
  noded_->sandboxes.at(id).content = "written";
  const Answer stopped = order("stop", id);
  ASSERT_EQ(stopped.status, 200) << to_text(stopped.body);
  EXPECT_EQ(stopped.body.at("state"), "stopped");
  EXPECT_EQ(stopped.body.at("memory"), "none");
  EXPECT_TRUE(noded_->sandboxes.at(id).disk);
  EXPECT_FALSE(noded_->sandboxes.at(id).slot);
  EXPECT_EQ(order("stop", id).status, 200);
  EXPECT_EQ(order("pause", id).status, 409);
  EXPECT_EQ(order("snapshot", id).status, 409);
  const Answer booted = order("resume", id);
  ASSERT_EQ(booted.status, 200);
  EXPECT_EQ(booted.body.at("generation_counter"), 2);
  EXPECT_EQ(noded_->vm(id)->generation, 2);  // its programs see it
  EXPECT_EQ(noded_->sandboxes.at(id).content, "written");
  EXPECT_EQ(echo(id, "up"), "up");
  delete_all(id);
}

TEST_F(RestTest, AResumeThatBootsDropsTheMemory) {
  const std::string id = cold('x');
  ASSERT_EQ(call("sandbox/resume", {{"id", id}, {"access_token", token}, {"boot", true}}).status, 200);
  EXPECT_EQ(mark(id), 0);
  EXPECT_EQ(snapshots_of(id), 0u);
  delete_all(id);
}

TEST_F(RestTest, CheckpointsFollowEachOtherAndLeaveItRunning) {
  const std::string id = created();
  const auto vm = noded_->vm(id);
  for (int i = 1; i <= 3; ++i) {
    mark(id) = static_cast<char>(i);
    const Answer taken = order("snapshot", id);
    ASSERT_EQ(taken.status, 200) << to_text(taken.body);
    EXPECT_EQ(taken.body.at("number").to_number<int>(), i);
    EXPECT_EQ(taken.body.at("quiesced"), true);
    EXPECT_FALSE(vm->stands_still());
    EXPECT_FALSE(vm->frozen);
  }
  // What changed since the one before, not all that ever did.
  const JsonArray all = call("sandbox/snapshots", {{"id", id}}).body.at("snapshots").as_array();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_LT(all[2].at("written_bytes").to_number<int>(), 64 * 1024);
  EXPECT_TRUE(all[0].at("parent").is_null());
  EXPECT_EQ(all[2].at("parent").to_number<int>(), 2);
  // They are the client's: a pause and a restart leave them alone.
  keep_hot_for(id, 0);
  EXPECT_EQ(order("pause", id).status, 200);
  until_memory(id, "cold");
  kill_manager();
  start();
  EXPECT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(snapshots_of(id), 4u);
  EXPECT_EQ(mark(id), 3);
  delete_all(id);
}

TEST_F(RestTest, AGuestThatDoesNotFreezeIsMarked) {
  noded_->behaviour.never_freezes = true;
  const std::string id = created();
  const Answer taken = order("snapshot", id);
  ASSERT_EQ(taken.status, 200);
  EXPECT_EQ(taken.body.at("quiesced"), false);
  delete_all(id);
}

TEST_F(RestTest, ACheckpointThatFailsAtAnyVerbLeavesAllAsItWas) {
  const std::string id = created();
  const auto vm = noded_->vm(id);
  ASSERT_EQ(order("snapshot", id).status, 200);
  for (const auto verb :
       {noded::Verb::vmm_open_memory, noded::Verb::snapshot_begin, noded::Verb::snapshot_finish}) {
    noded_->refuse = [verb](noded::Verb asked) -> std::optional<Error> {
      if (asked != verb) return std::nullopt;
      return Error{Code::internal, "refused"};
    };
    EXPECT_GE(order("snapshot", id).status, 400);
    EXPECT_FALSE(vm->stands_still());
    EXPECT_FALSE(vm->frozen);
    EXPECT_EQ(snapshots_of(id), 1u);
    noded_->refuse = [](noded::Verb) { return std::nullopt; };
  }
  EXPECT_EQ(order("snapshot", id).status, 200);
  EXPECT_EQ(snapshots_of(id), 2u);
  delete_all(id);
}

TEST_F(RestTest, EachFaultOfACheckpointLeavesAllAsItWas) {
  for (const char* fault : {"enospc-pages", "eio-pages", "eio-vmstate", "eio-manifest", "fail-device-state",
                            "fail-snapshot-begin", "fail-snapshot-finish"}) {
    SCOPED_TRACE(fault);
    kill_manager();
    more_arguments_ = {};
    start();
    const std::string id = created();
    mark(id) = 'f';
    ASSERT_EQ(order("snapshot", id).status, 200);  // without the fault it works
    kill_manager();
    more_arguments_ = {"--fault", fault};
    start();
    pump_until([&] { return state_of(id) == "running"; });
    EXPECT_GE(order("snapshot", id).status, 400);
    EXPECT_EQ(snapshots_of(id), 1u);
    keep_hot_for(id, 0);
    EXPECT_EQ(order("pause", id).status, 200);  // it stays hot: its memory is not to be lost
    for (int i = 0; i < 20; ++i) EXPECT_EQ(memory_of(id), "hot");
    expect_it_goes_on(id, 'f');
    delete_all(id);
  }
}

TEST_F(RestTest, ARestoreThatFailsAtAnyVerbLeavesItCold) {
  const std::string id = cold('x');
  for (const auto verb : {noded::Verb::disk_restore, noded::Verb::slot_create, noded::Verb::vmm_launch,
                          noded::Verb::snapshot_open}) {
    noded_->refuse = [verb](noded::Verb asked) -> std::optional<Error> {
      if (asked != verb) return std::nullopt;
      return Error{Code::internal, "refused"};
    };
    EXPECT_GE(order("resume", id).status, 400);
    EXPECT_EQ(state_of(id), "paused");
    EXPECT_EQ(noded_->vm(id), nullptr);
    noded_->refuse = [](noded::Verb) { return std::nullopt; };
  }
  expect_it_goes_on(id, 'x');
  delete_all(id);
}

TEST_F(RestTest, DeletionWinsInEveryState) {
  for (const char* first : {"pause", "stop", "snapshot"}) {
    const std::string id = created();
    ASSERT_EQ(order(first, id).status, 200);
    delete_all(id);
  }
  const std::string is_cold = cold('x');
  delete_all(is_cold);
  // In the middle of each.
  for (const char* name : {"pause", "stop", "snapshot", "resume"}) {
    const std::string id = std::string_view(name) == "resume" ? cold('y') : created();
    std::optional<Result<CallResponse>> answer;
    spawn(loop_.get_executor(), name,
          detail::store_result(session_->call({"POST", std::string("/node/sandbox/") + name,
                                               to_text(JsonObject{{"id", id}, {"access_token", token}})},
                                              Deadline::after(60s)),
                               &answer));
    delete_all(id);
    pump_until([&] { return answer.has_value(); });
  }
}

// It is what its end is followed by, whatever the order under way wanted before.
TEST_F(RestTest, ADeletionDuringAHotResumeIsNotForgotten) {
  const std::string id = created();
  ASSERT_EQ(order("pause", id).status, 200);
  ASSERT_EQ(memory_of(id), "hot");
  noded_->vm(id)->silent = true;
  std::optional<Result<CallResponse>> resumed, deleted;
  const auto ask = [&](const std::string& name, std::optional<Result<CallResponse>>* answer) {
    const std::string body = to_text(JsonObject{{"id", id}, {"access_token", token}});
    spawn(loop_.get_executor(), name.c_str(),
          detail::store_result(session_->call({"POST", "/node/sandbox/" + name, body}, Deadline::after(60s)),
                               answer));
  };
  ask("resume", &resumed);
  pump_until([&] { return state_of(id) == "resuming" && !noded_->vm(id)->stands_still(); });
  ask("delete", &deleted);
  EXPECT_EQ(state_of(id), "") << "it was heard";
  EXPECT_TRUE(noded_->vm(id)) << "and waits for the guest, which is silent still";
  EXPECT_FALSE(deleted);
  noded_->vm(id)->silent = false;
  pump_until([&] { return resumed && deleted; });
  ASSERT_TRUE(deleted);
  ASSERT_TRUE(*deleted) << deleted->error().message;
  EXPECT_EQ((*deleted)->status, 200);
  expect_nothing_left();
}

TEST_F(RestTest, APlannedEndKeepsWhatRunsAndTheNextStartBringsItBack) {
  const std::string running = created();
  const std::string paused = created();
  mark(running) = 'r';
  mark(paused) = 'p';
  ASSERT_EQ(order("pause", paused).status, 200);
  kill_manager(SIGTERM);
  EXPECT_TRUE(WIFEXITED(exit_status_) && WEXITSTATUS(exit_status_) == 0);
  EXPECT_EQ(noded_->vm(running), nullptr);
  EXPECT_EQ(noded_->vm(paused), nullptr);
  start();
  pump_until([&] { return state_of(running) == "running"; });
  EXPECT_EQ(mark(running), 'r');
  EXPECT_EQ(echo(running, "back"), "back");
  EXPECT_EQ(state_of(paused), "paused");  // as its owner wants it
  expect_it_goes_on(paused, 'p');
  EXPECT_EQ(call("sandbox/delete", {{"id", running}}).status, 200);
  delete_all(paused);
}

TEST_F(RestTest, KilledAtEachVerbOfEachOperation) {
  struct {
    const char* name;
    bool from_cold;
  } const operations[] = {{"pause", false}, {"snapshot", false}, {"stop", false}, {"resume", true}};
  for (const auto& [name, from_cold] : operations)
    for (std::size_t at = 1; at <= 12; ++at)
      for (const bool done : {false, true}) {
        SCOPED_TRACE(testing::Message() << name << ", verb " << at << (done ? " after" : " before"));
        const std::string id = from_cold ? cold('k') : created();
        mark_if_live(id, 'k');
        if (!from_cold) keep_hot_for(id, 0);
        const std::size_t before = noded_->verbs.size();
        bool killed = false;
        noded_->on_verb = [&](std::size_t nth, bool after) {
          if (nth != before + at || after != done) return;
          killed = true;
          ::kill(pid_, SIGKILL);
        };
        (void)order(name, id);
        // What follows a pause by itself counts too.
        const Deadline deadline = Deadline::after(300ms);
        while (!killed && !deadline.passed()) loop_.run_one_for(10ms);
        noded_->on_verb = [](std::size_t, bool) {};
        kill_manager();
        start();
        expect_it_goes_on(id, 'k');
        delete_all(id);
        if (!killed) at = 100;  // it has no more verbs
      }
}

TEST_F(RestTest, KilledBetweenAnyTwoSteps) {
  struct {
    const char* point;
    const char* operation;
    bool from_cold;
  } const crashes[] = {{"pause-stopped", "pause", false},         {"checkpoint-quiesced", "snapshot", false},
                       {"checkpoint-stopped", "snapshot", false}, {"checkpoint-write", "snapshot", false},
                       {"checkpoint-finish", "snapshot", false},  {"cold-taken", "pause", false},
                       {"cold-written", "pause", false},          {"resume-hot-woken", "resume-hot", false},
                       {"resume-cold-woken", "resume", true},     {"stop-down", "stop", false}};
  for (const auto& [point, operation, from_cold] : crashes) {
    SCOPED_TRACE(point);
    const std::string id = from_cold ? cold('c') : created();
    const char value = std::string_view(operation) == "stop" ? 0 : 'c';
    mark_if_live(id, value);
    const bool resumes_hot = std::string_view(operation) == "resume-hot";
    if (resumes_hot) ASSERT_EQ(order("pause", id).status, 200);
    kill_manager();
    more_arguments_ = {"--fault", std::string("crash-at=") + point};
    start();
    if (!from_cold && !resumes_hot) {
      pump_until([&] { return state_of(id) == "running"; });
      keep_hot_for(id, 0);
    }
    (void)order(resumes_hot ? "resume" : operation, id);
    pump_until([&] { return has_ended(); });
    EXPECT_TRUE(WIFSIGNALED(exit_status_));  // it was there
    kill_manager();
    more_arguments_ = {};
    start();
    expect_it_goes_on(id, value);
    delete_all(id);
  }
}

TEST_F(RestTest, AnOlderDaemonIsReplacedAfterARestoreOnly) {
  const std::string program(1'000'000, 'p');  // several pieces
  ASSERT_TRUE(write_file_durably(folder_ + "/space-daemon", program, 0600));
  kill_manager();
  more_arguments_ = {"--daemon", folder_ + "/space-daemon"};
  start();
  const std::string id = cold('x');
  ASSERT_EQ(order("resume", id).status, 200);
  EXPECT_EQ(noded_->vm(id)->program, program);  // the fake's version is none: older than any
  EXPECT_EQ(noded_->vm(id)->attaches, 2);
  EXPECT_EQ(echo(id, "goes on"), "goes on");
  EXPECT_FALSE(noded_->vm(id)->frozen);
  const std::string other = created();
  ASSERT_EQ(order("pause", other).status, 200);
  ASSERT_EQ(order("resume", other).status, 200);
  EXPECT_EQ(noded_->vm(other)->program, "");
  EXPECT_EQ(call("sandbox/delete", {{"id", other}}).status, 200);
  delete_all(id);
}

TEST_F(RestTest, ATemplatesCheckpointIsWhatSandboxesBeginFrom) {
  kill_manager();
  noded_->manifest = R"({"shape":{"vcpus":1,"memory_mib":512,"disk_mib":4096},"default_user":"user"})";
  start();
  ASSERT_EQ(call("template/import", {{"digest", digest}}).body.at("checkpoint"), true);
  ASSERT_EQ(noded_->snapshots.of.size(), 1u);
  const std::string builder = noded_->snapshots.of.begin()->first;
  EXPECT_EQ(state_of(builder), "");  // nobody's sandbox
  EXPECT_TRUE(noded_->holds_nothing());
  const std::string id = created();
  EXPECT_EQ(info(id).at("restored_from").as_object().at("sandbox"), Json(builder));
  const auto vm = noded_->vm(id);
  ASSERT_EQ(vm->wakes.size(), 1u);
  EXPECT_EQ(vm->wakes[0].at("sandbox_id"), Json(id));
  EXPECT_TRUE(vm->wakes[0].contains("entropy"));
  EXPECT_EQ(vm->wakes[0].at("init").as_object().at("access_token"), Json(token));
  kill_manager();
  start();
  created();  // it is found again
  EXPECT_EQ(noded_->snapshots.of.size(), 1u);
  // The template goes; what reads from its checkpoint keeps it until it goes too.
  ASSERT_EQ(call("template/remove", {{"digest", digest}}).status, 200);
  EXPECT_EQ(noded_->snapshots.of.size(), 1u);
  const JsonArray sandboxes = call("sandbox/list", {}).body.at("sandboxes").as_array();
  for (const Json& sandbox : sandboxes)
    EXPECT_EQ(call("sandbox/delete", {{"id", sandbox.at("id")}}).status, 200);
  pump_until([&] { return noded_->snapshots.of.empty(); });
  expect_nothing_left();
}

}  // namespace
}  // namespace space
