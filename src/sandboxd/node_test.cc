// The whole sandbox manager: creates, deaths, kill -9 at every step.
#include <gtest/gtest.h>

#include <algorithm>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

TEST_F(NodeTest, SaysWhoItIs) {
  const Answer hello = call("hello", {{"control", "test"}});
  ASSERT_EQ(hello.status, 200);
  EXPECT_EQ(hello.body.at("accelerator").as_string(), "tcg");
  EXPECT_EQ(hello.body.at("pool_free_bytes").as_int64(), 1 << 30);
  const std::string id(hello.body.at("node_id").as_string());
  kill_manager();
  start();
  EXPECT_EQ(call("hello", {}).body.at("node_id").as_string(), id);
}

TEST_F(NodeTest, CreatesServesAndDeletes) {
  const std::string id = created();
  const auto vm = noded_->vm(id);
  ASSERT_TRUE(vm);
  EXPECT_EQ(vm->calls, (std::vector<std::string>{"identity", "init"}));
  EXPECT_EQ(vm->identity.at("sandbox_id").as_string(), id);
  EXPECT_EQ(vm->init.at("access_token").as_string(), token);
  EXPECT_EQ(vm->init.at("env").as_object().at("A").as_string(), "b");
  EXPECT_EQ(state_of(id), "running");
  EXPECT_EQ(echo(id, "hello"), "hello");
  EXPECT_EQ(call("sandbox/stats", {{"id", id}}).body.at("cpu_count").as_int64(), 1);

  auto refused = run(session_->connect(id + ":8080", Deadline::after(5s)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);

  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  EXPECT_EQ(call("sandbox/get", {{"id", id}}).status, 404);
  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  expect_nothing_left();
  auto gone = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::not_found);
}

TEST_F(NodeTest, TheTokenIsNeverWrittenDown) {
  created();
  kill_manager();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/sandboxd")) {
    if (!entry.is_regular_file()) continue;
    const auto content = read_file(entry.path(), 64 << 20);
    ASSERT_TRUE(content);
    EXPECT_EQ(content->find(token), std::string::npos) << entry.path();
  }
  start();
}

TEST_F(NodeTest, CreateIsIdempotent) {
  const std::string id = created();
  EXPECT_EQ(call("sandbox/create", create_body(id)).body.at("state").as_string(), "running");
  EXPECT_EQ(noded_->vm(id)->calls.size(), 2u);  // identity and init once only
  JsonObject newer = create_body(id);
  newer["generation"] = 2;
  EXPECT_EQ(call("sandbox/create", newer).status, 409);
}

TEST_F(NodeTest, RefusesWhatIsOutOfBounds) {
  const auto with = [&](const char* key, Json value) {
    JsonObject body = create_body(new_sandbox_id());
    body[key] = std::move(value);
    return call("sandbox/create", body).status;
  };
  EXPECT_EQ(with("id", "../../etc"), 400);
  EXPECT_EQ(with("template", "base"), 400);
  EXPECT_EQ(with("team", nullptr), 400);
  EXPECT_EQ(with("team", ""), 400);
  EXPECT_EQ(with("team", std::string(65, 'a').c_str()), 400);
  EXPECT_EQ(with("vcpus", 0), 400);
  EXPECT_EQ(with("memory_mib", "512"), 400);
  EXPECT_EQ(with("env", JsonObject{{"A", 1}}), 400);
  EXPECT_EQ(with("access_token", nullptr), 400);
  EXPECT_EQ(call("sandbox/stats", {{"id", 7}}).status, 400);
  EXPECT_EQ(call("no/such/call", {}).status, 404);
  expect_nothing_left();
}

TEST_F(NodeTest, AWakeUpTimeOutlivesTheManager) {
  const std::string id = created();
  noded_->vm(id)->stats = R"({"cpu_count":1,"activity":{"wake_at_us":1900000000000000}})";
  EXPECT_EQ(call("sandbox/stats", {{"id", id}}).body.at("activity").at("wake_at"),
            "2030-03-17T17:46:40.000Z");
  kill_manager();
  start();
  EXPECT_EQ(call("sandbox/get", {{"id", id}}).body.at("wake_at"), "2030-03-17T17:46:40.000Z");
  EXPECT_EQ(call("sandbox/activity", {{"id", id}}).body.at("wake_at"), "2030-03-17T17:46:40.000Z");
}

TEST_F(NodeTest, TunnelsAndCallsAreActivity) {
  const std::string id = created();
  EXPECT_EQ(echo(id, "hello"), "hello");
  const JsonObject used = call("sandbox/activity", {{"id", id}, {"call", true}}).body;
  EXPECT_EQ(to_text(used.at("reasons")), R"(["call","stream","traffic"])");
  EXPECT_EQ(used.at("bytes_in"), 5);
  EXPECT_EQ(used.at("bytes_out"), 5);
  const JsonArray all =
      call("stats", {{"ids", {id, "i0000000000000000000", 7}}}).body.at("sandboxes").as_array();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].at("mem_total"), 512);
}

TEST_F(NodeTest, LogsHoldTheLifeTheConsoleAndTheEnd) {
  const std::string id = created();
  const auto messages = [&](JsonObject query) {
    query["id"] = id;
    std::vector<std::string> result;
    for (const Json& entry : call("sandbox/logs", query).body.at("entries").as_array())
      result.emplace_back(entry.at("message").as_string());
    return result;
  };
  EXPECT_EQ(messages({}), (std::vector<std::string>{"sandbox created", "sandbox started", "booting"}));
  EXPECT_EQ(messages({{"backward", true}, {"limit", 1}}), std::vector<std::string>{"booting"});
  noded_->vm(id)->die(9);
  // Waits for the line that is not there yet.
  EXPECT_EQ(messages({{"level", "error"}, {"wait_ms", 20'000}}), std::vector<std::string>{"sandbox died"});
  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  EXPECT_EQ(messages({{"search", "deleted"}}), std::vector<std::string>{"sandbox deleted"});
  EXPECT_EQ(call("sandbox/logs", {{"id", "i0000000000000000000"}}).status, 404);
  EXPECT_EQ(call("sandbox/logs", {{"id", id}, {"level", "loud"}}).status, 400);
}

TEST_F(NodeTest, EveryStepThatFailsIsUndone) {
  using enum noded::Verb;
  for (const noded::Verb failing : {disk_create, slot_create, vmm_launch}) {
    noded_->refuse = [&](noded::Verb verb) -> std::optional<Error> {
      if (verb == failing) return Error{Code::exhausted, "no space left"};
      return std::nullopt;
    };
    const std::string id = new_sandbox_id();
    const Answer answer = call("sandbox/create", create_body(id));
    EXPECT_EQ(answer.status, 429);
    EXPECT_NE(answer.body.at("message").as_string().find("no space left"), std::string::npos);
    EXPECT_TRUE(noded_->holds_nothing());
    EXPECT_EQ(state_of(id), "failed");
    EXPECT_EQ(call("sandbox/create", create_body(id)).status, 429);  // the first answer again
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
    expect_nothing_left();
  }
}

TEST_F(NodeTest, AGuestThatRefusesOrDiesFailsTheStart) {
  for (const std::string name : {"identity", "init"}) {
    noded_->behaviour = {.refuses = name};
    const std::string refused = new_sandbox_id();
    EXPECT_EQ(call("sandbox/create", create_body(refused)).status, 500);
    EXPECT_TRUE(noded_->holds_nothing());

    noded_->behaviour = {.dies_during = name};
    const std::string dead = new_sandbox_id();
    const Answer answer = call("sandbox/create", create_body(dead));
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.at("message").as_string().find("killed by signal 9"), std::string::npos);
    EXPECT_TRUE(noded_->holds_nothing());
  }
}

TEST_F(NodeTest, AFailedSandboxMayBeReplacedByAHigherGeneration) {
  noded_->behaviour = {.refuses = "init"};
  const std::string id = new_sandbox_id();
  EXPECT_EQ(call("sandbox/create", create_body(id)).status, 500);
  noded_->behaviour = {};
  JsonObject newer = create_body(id);
  newer["generation"] = 2;
  EXPECT_EQ(call("sandbox/create", newer).status, 200);
  EXPECT_EQ(echo(id, "again"), "again");
}

TEST_F(NodeTest, DeleteWinsOverACreateUnderWay) {
  for (const bool garbage : {false, true}) {
    noded_->behaviour = {.boots = false, .answers_garbage = garbage};
    const std::string id = new_sandbox_id();
    std::optional<Result<CallResponse>> create;
    spawn(loop_.get_executor(), "create",
          detail::store_result(session_->call({"POST", "/node/sandbox/create", to_text(create_body(id))},
                                              Deadline::after(60s)),
                               &create));
    pump_until([&] { return noded_->vm(id) != nullptr; });
    EXPECT_EQ(state_of(id), "creating");
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
    pump_until([&] { return create.has_value(); });
    EXPECT_EQ((*create)->status, 409);
    expect_nothing_left();
  }
}

TEST_F(NodeTest, AStuckSandboxDelaysNobody) {
  noded_->behaviour = {.boots = false};
  const std::string stuck = new_sandbox_id();
  std::optional<Result<CallResponse>> create;
  spawn(loop_.get_executor(), "create",
        detail::store_result(session_->call({"POST", "/node/sandbox/create", to_text(create_body(stuck))},
                                            Deadline::after(60s)),
                             &create));
  pump_until([&] { return noded_->vm(stuck) != nullptr; });
  noded_->behaviour = {};
  EXPECT_EQ(echo(created(), "others go on"), "others go on");
  EXPECT_FALSE(create.has_value());
  EXPECT_EQ(call("sandbox/delete", {{"id", stuck}}).status, 200);
  pump_until([&] { return create.has_value(); });
}

TEST_F(NodeTest, ADeathIsReportedAndCleanedUp) {
  const std::string id = created_mortal();
  auto stream = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_TRUE(stream);
  EXPECT_EQ(echo_on(**stream, "alive"), "alive");
  const auto next = call("events", {{"after", 0}}).body.at("next").as_int64();

  noded_->vm(id)->die(9);
  const Answer events = call("events", {{"after", next}, {"wait_ms", 10000}});
  ASSERT_EQ(events.status, 200);
  ASSERT_EQ(events.body.at("events").as_array().size(), 1u);
  const JsonObject& event = events.body.at("events").as_array()[0].as_object();
  EXPECT_EQ(event.at("id").as_string(), id);
  EXPECT_EQ(event.at("state").as_string(), "failed");
  EXPECT_EQ(event.at("reason").as_string(), "its VMM was killed by signal 9");

  std::byte buffer[16];
  const auto n = run((*stream)->read(buffer));
  EXPECT_TRUE(!n || *n == 0);  // the stream of a dead sandbox ends
  auto refused = run(session_->connect(id + ":49983", Deadline::after(5s)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  pump_until([&] { return noded_->holds_nothing(); });
  EXPECT_EQ(state_of(id), "failed");
  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  expect_nothing_left();
}

TEST_F(NodeTest, KilledAndStartedAgainItAdoptsWhatRuns) {
  const std::string id = created_mortal();
  const auto vm = noded_->vm(id);
  const std::uint64_t epoch = vm->last_epoch;
  for (const int signal : {SIGKILL, SIGQUIT}) {
    kill_manager(signal);
    EXPECT_TRUE(vm->running());
    start();
    EXPECT_EQ(state_of(id), "running");
    EXPECT_EQ(echo(id, "still here"), "still here");
  }
  EXPECT_TRUE(WIFEXITED(exit_status_) && WEXITSTATUS(exit_status_) == 0);  // SIGQUIT ends it cleanly
  EXPECT_EQ(noded_->vm(id), vm);
  EXPECT_GT(vm->last_epoch, epoch);
  // Never initialised twice; thawed in case the one before died with it frozen.
  EXPECT_EQ(vm->calls,
            (std::vector<std::string>{"identity", "init", "thaw", "thaw_disk", "thaw", "thaw_disk"}));
  vm->die(6);
  pump_until([&] { return noded_->holds_nothing(); });  // and watches it
  EXPECT_EQ(call("sandbox/get", {{"id", id}}).body.at("reason").as_string(),
            "its VMM was killed by signal 6");
}

TEST_F(NodeTest, ADeathInItsAbsenceIsFound) {
  const std::string id = created_mortal();
  kill_manager();
  noded_->vm(id)->die(9);
  start();
  pump_until([&] { return noded_->holds_nothing(); });
  const Answer got = call("sandbox/get", {{"id", id}});
  EXPECT_EQ(got.body.at("state").as_string(), "failed");
  EXPECT_EQ(got.body.at("reason").as_string(), "its VMM was killed by signal 9");
}

TEST_F(NodeTest, ADeathNobodySawIsSaidToBeOne) {
  const std::string id = created_mortal();
  noded_->sees_deaths = false;
  noded_->vm(id)->die(9);
  pump_until([&] { return noded_->holds_nothing(); });
  EXPECT_EQ(call("sandbox/get", {{"id", id}}).body.at("reason").as_string(),
            "its VMM ended and nobody saw why");
}

TEST_F(NodeTest, MemoryThatIsPromisedIsNotPromisedAgain) {
  kill_manager();
  memory_limit_mib_ = 2 * (512 + 128);
  start();
  const std::string first = created_mortal(), second = created();
  const JsonObject third = create_body(new_sandbox_id());
  const Answer refused = call("sandbox/create", third);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.at("message").as_string().find("memory_limit_mib"), std::string::npos);
  EXPECT_EQ(call("sandbox/create", create_body(first)).status, 200);  // a repetition asks for nothing new
  kill_manager();
  start();  // what is adopted counts
  EXPECT_EQ(call("sandbox/create", third).status, 429);
  noded_->vm(first)->die(9);
  pump_until([&] { return state_of(first) == "failed"; });
  EXPECT_EQ(call("sandbox/create", third).status, 200);
  EXPECT_EQ(call("sandbox/delete", {{"id", second}}).status, 200);
  created();
}

TEST_F(NodeTest, OrphansAreRemoved) {
  kill_manager();
  noded_->sandboxes[new_sandbox_id()].disk = true;
  noded_->sandboxes[new_sandbox_id()].slot = true;
  start();
  pump_until([&] { return noded_->holds_nothing(); });
  expect_nothing_left();
}

TEST_F(NodeTest, ARestartedNodeManagerIsFoundAgain) {
  const std::string id = created();
  noded_->restart();
  EXPECT_EQ(echo(id, "tunnels do not need it"), "tunnels do not need it");
  const std::string second = created();
  noded_->on_verb = [&, done = false](std::size_t, bool after) mutable {
    if (after && !std::exchange(done, true)) noded_->restart();  // the effect happened, its answer is lost
  };
  const std::string third = created();
  for (const auto& each : {id, second, third}) EXPECT_EQ(call("sandbox/delete", {{"id", each}}).status, 200);
  expect_nothing_left();
}

TEST_F(NodeTest, ALostControlPlaneIsDialledAgain) {
  const std::string id = created();
  session_->close("control restarts");
  pump_until([&] { return !session_->closed(); });
  EXPECT_EQ(echo(id, "back"), "back");
}

TEST_F(NodeTest, TemplatesComeAndGo) {
  const std::string other(64, 'b');
  EXPECT_EQ(call("template/import", {{"digest", other}}).body.at("name").as_string(), "base");
  EXPECT_EQ(call("template/list", {}).body.at("templates").as_array().size(), 2u);
  EXPECT_EQ(call("template/remove", {{"digest", other}}).status, 200);
  EXPECT_EQ(call("template/list", {}).body.at("templates").as_array().size(), 1u);
  EXPECT_EQ(call("template/import", {{"digest", "x"}}).status, 400);
}

// kill -9 before and after the effect of every verb of a create: the next process leaves nothing and loses
// nothing.
TEST_F(NodeTest, KilledAtEachVerbOfACreate) {
  // A manager that has just started looks at its templates, which is no verb of a create.
  const auto looks = [&] { return std::ranges::count(noded_->verbs, noded::Verb::template_open); };
  std::ptrdiff_t looks_before = 0;
  for (const bool done : {false, true})
    for (std::size_t step = 1; step <= 3; ++step) {
      SCOPED_TRACE(testing::Message() << "verb " << step << (done ? " after" : " before") << " its effect");
      pump_until([&] { return looks() > looks_before; });
      looks_before = looks();
      const std::size_t at = noded_->verbs.size() + step;
      noded_->on_verb = [&, at, done](std::size_t nth, bool after) {
        if (nth == at && after == done) ::kill(pid_, SIGKILL);
      };
      const std::string id = new_sandbox_id();
      EXPECT_EQ(call("sandbox/create", create_body(id)).status, 0);
      noded_->on_verb = [](std::size_t, bool) {};
      kill_manager();
      start();
      pump_until([&] { return noded_->holds_nothing(); });
      EXPECT_EQ(state_of(id), "failed");
      EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
      expect_nothing_left();
    }
}

TEST_F(NodeTest, KilledAtEachVerbOfADelete) {
  for (std::size_t step = 1; step <= 4; ++step)
    for (const bool done : {false, true}) {
      SCOPED_TRACE(testing::Message() << "verb " << step << (done ? " after" : " before") << " its effect");
      const std::string id = created();
      const std::size_t at = noded_->verbs.size() + step;
      noded_->on_verb = [&, at, done](std::size_t nth, bool after) {
        if (nth == at && after == done) ::kill(pid_, SIGKILL);
      };
      EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 0);
      noded_->on_verb = [](std::size_t, bool) {};
      kill_manager();
      start();
      pump_until([&] { return noded_->holds_nothing(); });  // the deletion goes on without being asked again
      EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
      expect_nothing_left();
    }
}

TEST_F(NodeTest, ADeletionThatFailsGoesOn) {
  const std::string id = created();
  bool broken = true;
  noded_->refuse = [&](noded::Verb verb) -> std::optional<Error> {
    if (broken && verb == noded::Verb::disk_remove) return Error{Code::internal, "I/O error"};
    return std::nullopt;
  };
  std::optional<Result<CallResponse>> removal;
  spawn(loop_.get_executor(), "delete",
        detail::store_result(session_->call({"POST", "/node/sandbox/delete", to_text(JsonObject{{"id", id}})},
                                            Deadline::after(60s)),
                             &removal));
  pump_until([&] { return !noded_->vm(id) && !noded_->sandboxes[id].slot; });
  EXPECT_FALSE(removal.has_value());
  broken = false;
  pump_until([&] { return removal.has_value(); });
  EXPECT_EQ((*removal)->status, 200);
  expect_nothing_left();
}

}  // namespace
}  // namespace space
