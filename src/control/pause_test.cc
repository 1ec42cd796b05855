// Pause, resume, stop and start through the edge, with a fake node. T numbers: what users reported of such
// platforms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PauseTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }

  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  Wall in(std::int64_t seconds) const { return plane.clock.wall() + std::chrono::seconds(seconds); }
  Answer post(const std::string& id, const std::string& verb, std::string body = "") {
    return plane.api("POST", "/sandboxes/" + id + "/" + verb, std::move(body));
  }
  Answer connect(const std::string& id, std::string body = "{}") {
    return plane.api("POST", "/v2/sandboxes/" + id + "/connect", std::move(body));
  }
  std::string paused(std::string body = R"({"templateID":"base","timeout":600})") {
    const std::string id = plane.create(std::move(body));
    EXPECT_EQ(post(id, "pause", "{}").status, 204);
    return id;
  }
  std::string state(const std::string& id) {
    return require_text(plane.api("GET", "/sandboxes/" + id).json(), "state").value_or("none");
  }
  std::string detail(const std::string& id) {
    return require_text(plane.api("GET", "/sandboxes/" + id).json(), "stateDetail").value_or("none");
  }
  int who(const std::string& id) { return plane.send(TestPlane::to_sandbox("GET", "/who", id)).status; }

  // Goes on once the node is at it.
  void until_state(const std::string& id, State wanted) {
    plane.run_until([&] { return plane.node().sandboxes.at(id).state == wanted; });
  }
  void let_go() {
    plane.node().moves_hang = false;
    plane.node().wake();
  }
  std::size_t moves() { return plane.node().moves.size(); }

  TestPlane plane;
};

TEST_F(PauseTest, PauseAndConnect) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":600})");
  const store::Sandbox before = row(id);
  EXPECT_EQ(who(id), 200);
  plane.clock.advance(Millis(10'000));
  const Answer answer = post(id, "pause", "{}");
  EXPECT_EQ(answer.status, 204) << answer.body;
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(state(id), "paused");
  EXPECT_EQ(row(id).state, State::paused);
  EXPECT_EQ(row(id).wanted, Wanted::paused);
  EXPECT_EQ(row(id).started_at, before.started_at);
  EXPECT_EQ(row(id).end_at, plane.clock.wall());
  EXPECT_EQ(who(id), 502);

  plane.clock.advance(Millis(3'600'000));
  plane.sandboxes().expire_due();  // a sandbox that rests has no end
  const Answer back = connect(id, R"({"timeout":60})");
  EXPECT_EQ(back.status, 201) << back.body;
  EXPECT_EQ(*require_text(back.json(), "sandboxID"), id);
  EXPECT_EQ(*require_text(back.json(), "envdAccessToken"), before.access_token);
  EXPECT_EQ(*require_text(back.json(), "envdVersion"), "0.6.13");
  EXPECT_EQ(row(id).started_at, plane.clock.wall());
  EXPECT_EQ(row(id).end_at, in(60));
  EXPECT_EQ(who(id), 200);
  EXPECT_EQ(connect(id).status, 200);
  EXPECT_THAT(plane.node().moves, ElementsAre("pause " + id, "resume " + id));
  const JsonObject& asked = plane.node().sandboxes.at(id).resumed_with;
  EXPECT_EQ(*require_text(asked, "access_token"), before.access_token);
  EXPECT_EQ(*require_text(asked, "default_user"), "user");
  EXPECT_EQ(asked.at("boot"), false);
}

// The first SDKs with a pause send no body at all, later ones {"memory":true}.
TEST_F(PauseTest, OldClientsPauseWithoutABody) {
  for (const char* body : {"", "{}", R"({"memory":true})"}) {
    const std::string id = plane.create();
    EXPECT_EQ(post(id, "pause", body).status, 204) << body;
    EXPECT_EQ(row(id).state, State::paused);
    EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/connect", R"({"timeout":30})").status, 201);
  }
  EXPECT_EQ(post(plane.create(), "pause", R"({"memory":1})").status, 400);
}

TEST_F(PauseTest, APausedSandboxIsNotPausedTwice) {
  const std::string id = paused();
  const Answer again = post(id, "pause", "{}");
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(again.json().at("code"), 409);
  EXPECT_EQ(post(new_sandbox_id(), "pause", "{}").status, 404);
  EXPECT_EQ(connect(new_sandbox_id()).status, 404);
  EXPECT_EQ(moves(), 1U);
}

TEST_F(PauseTest, TheResumeRouteOfOldClients) {
  const std::string id = plane.create();
  const Answer running = post(id, "resume", R"({"timeout":30})");
  EXPECT_EQ(running.status, 409);
  EXPECT_THAT(running.message(), HasSubstr("already running"));
  EXPECT_EQ(post(id, "pause").status, 204);
  const Answer resumed = post(id, "resume");
  EXPECT_EQ(resumed.status, 201) << resumed.body;
  EXPECT_EQ(row(id).end_at, in(15));
  EXPECT_FALSE(row(id).lifecycle.pause_on_timeout);
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(post(id, "resume", R"({"timeout":30,"autoPause":true})").status, 201);
  EXPECT_TRUE(row(id).lifecycle.pause_on_timeout);
  EXPECT_EQ(post(new_sandbox_id(), "resume").status, 404);
  EXPECT_EQ(connect(id, R"({"timeout":3601})").status, 400);
}

TEST_F(PauseTest, WithoutMemoryItIsStoppedAndBootsAgain) {
  const std::string id = plane.create();
  EXPECT_EQ(post(id, "pause", R"({"memory":false})").status, 204);
  EXPECT_EQ(plane.node().sandboxes.at(id).state, State::stopped);
  EXPECT_EQ(state(id), "paused");
  EXPECT_EQ(detail(id), "stopped");
  EXPECT_EQ(post(id, "pause", "{}").status, 409);
  EXPECT_EQ(connect(id).status, 201);
  EXPECT_EQ(plane.node().sandboxes.at(id).resumed_with.at("boot"), false);
  EXPECT_EQ(post(id, "pause", "{}").status, 204);
  EXPECT_EQ(connect(id, R"({"memory":false})").status, 201);
  EXPECT_EQ(plane.node().sandboxes.at(id).resumed_with.at("boot"), true);
  // Of no effect while it runs.
  EXPECT_EQ(connect(id, R"({"memory":false})").status, 200);
}

TEST_F(PauseTest, StopAndStart) {
  const std::string id = plane.create();
  const std::string path = "/v1/sandboxes/" + id;
  EXPECT_EQ(plane.api("POST", path + "/stop").status, 204);
  EXPECT_EQ(detail(id), "stopped");
  EXPECT_EQ(plane.api("POST", path + "/stop").status, 204);
  const Answer started = plane.api("POST", path + "/start", R"({"timeout":40})");
  EXPECT_EQ(started.status, 201) << started.body;
  EXPECT_EQ(row(id).end_at, in(40));
  EXPECT_EQ(plane.api("POST", path + "/start").status, 200);
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(plane.api("POST", path + "/stop").status, 204);  // from paused too
  EXPECT_THAT(plane.node().moves, ElementsAre("stop " + id, "resume " + id, "pause " + id, "stop " + id));
  EXPECT_EQ(plane.api("POST", "/v1/sandboxes/" + new_sandbox_id() + "/stop").status, 404);
}

TEST_F(PauseTest, GenerationGrowsWithEveryWish) {
  const std::string id = plane.create();
  EXPECT_EQ(row(id).generation, 1);
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(row(id).generation, 2);
  EXPECT_EQ(connect(id).status, 201);
  EXPECT_EQ(row(id).generation, 3);
  EXPECT_EQ(connect(id).status, 200);
  EXPECT_EQ(row(id).generation, 3);
}

// T12: nothing of what it is changes while it rests.
TEST_F(PauseTest, T12IdentitySurvivesEveryState) {
  const std::string id = plane.create(
      R"({"templateID":"base","timeout":600,"metadata":{"owner":"ana"},"allow_internet_access":false,
          "autoPause":true,"autoResume":{"enabled":true}})");
  const auto shown = [&] {
    JsonObject json = plane.api("GET", "/sandboxes/" + id).json();
    for (const char* changes : {"state", "stateDetail", "endAt", "startedAt"}) json.erase(changes);
    return to_text(json);
  };
  const std::string before = shown();
  EXPECT_THAT(before, HasSubstr(R"("lifecycle":{"onTimeout":"pause","autoResume":true})"));
  EXPECT_THAT(before, HasSubstr("ana"));
  for (const char* verb : {"pause", "v1 stop"}) {
    const bool stop = std::string_view(verb) == "v1 stop";
    EXPECT_EQ((stop ? plane.api("POST", "/v1/sandboxes/" + id + "/stop") : post(id, "pause")).status, 204);
    EXPECT_EQ(shown(), before) << verb;
    EXPECT_EQ(connect(id).status, 201);
    EXPECT_EQ(shown(), before) << verb;
  }
}

// T08, T09: the id is the same, and there is no moment between a pause's answer and being resumable.
TEST_F(PauseTest, T01T08T09ResumeRightAfterPause) {
  const std::string id = plane.create();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(post(id, "pause").status, 204);
    const Answer back = connect(id);
    ASSERT_EQ(back.status, 201) << back.body;
    ASSERT_EQ(*require_text(back.json(), "sandboxID"), id);
    ASSERT_EQ(who(id), 200);
  }
}

TEST_F(PauseTest, ListsByState) {
  const std::string running = plane.create();
  const std::string asleep = paused();
  const std::string stopped = plane.create();
  EXPECT_EQ(plane.api("POST", "/v1/sandboxes/" + stopped + "/stop").status, 204);
  const auto ids = [&](const std::string& query) {
    std::set<std::string> found;
    const Json entries = *parse_json(plane.api("GET", "/v2/sandboxes" + query).body);
    for (const Json& entry : entries.as_array()) found.insert(*require_text(entry.as_object(), "sandboxID"));
    return found;
  };
  using Ids = std::set<std::string>;
  EXPECT_EQ(ids(""), (Ids{running, asleep, stopped}));
  EXPECT_EQ(ids("?state=running"), Ids{running});
  EXPECT_EQ(ids("?state=paused"), (Ids{asleep, stopped}));
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes").fields.get("X-Total-Running"), "1");
}

// T03: the node could not resume it if it wanted to.
TEST_F(PauseTest, T03KillOfAPausedSandboxNeverResumesIt) {
  const std::string id = paused();
  plane.node().move_error = Error{Code::exhausted, "no memory left"};
  EXPECT_EQ(connect(id).status, 503);
  const std::size_t before = moves();
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_EQ(moves(), before);
  EXPECT_TRUE(plane.node().sandboxes.empty());
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 404);
  EXPECT_EQ(connect(id).status, 404);
  EXPECT_EQ(row(id).state, State::deleted);
}

// T04: whatever it is at.
TEST_F(PauseTest, T04KillWinsFromEveryState) {
  for (const bool resuming : {false, true}) {
    const std::string id = resuming ? paused() : plane.create();
    plane.node().moves_hang = true;
    const auto moving = resuming ? plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", "{}")
                                 : plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
    until_state(id, resuming ? State::resuming : State::pausing);
    EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
    EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 404);
    let_go();
    const Answer lost = plane.finish(*moving);
    EXPECT_TRUE(lost.status == 404 || lost.status == 409) << lost.status;
    EXPECT_EQ(row(id).state, State::deleted);
    EXPECT_TRUE(plane.node().sandboxes.empty());
  }
}

// T06: a hundred of them.
TEST_F(PauseTest, T06ParallelConnectsStartOneResume) {
  const std::string id = paused();
  plane.node().moves_hang = true;
  std::vector<std::unique_ptr<TestPlane::Sending>> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":60})"));
  until_state(id, State::resuming);
  let_go();
  int resumed = 0;
  for (const auto& sending : all) {
    const Answer answer = plane.finish(*sending);
    EXPECT_TRUE(answer.status == 200 || answer.status == 201) << answer.status << answer.body;
    resumed += answer.status == 201 ? 1 : 0;
  }
  EXPECT_EQ(resumed, 1);
  EXPECT_EQ(std::ranges::count(plane.node().moves, "resume " + id), 1);
}

TEST_F(PauseTest, AResumeThatFailsFailsForAllWhoWaited) {
  const std::string id = paused();
  plane.node().move_error = Error{Code::exhausted, "no memory left"};
  std::vector<std::unique_ptr<TestPlane::Sending>> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", "{}"));
  for (const auto& sending : all) {
    const Answer answer = plane.finish(*sending);
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(*require_text(answer.json(), "error_code"), "sandbox_capacity_unavailable");
  }
  EXPECT_EQ(state(id), "paused");
  EXPECT_EQ(row(id).wanted, Wanted::paused);
  EXPECT_LT(std::ranges::count(plane.node().moves, "resume " + id), 20);
  plane.node().move_error.reset();
  EXPECT_EQ(connect(id).status, 201);
}

TEST_F(PauseTest, T01APauseThatFailsSaysSoAndTheSandboxRunsOn) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":600})");
  const Wall end_at = row(id).end_at;
  plane.node().move_error = Error{Code::unavailable, "the pool is full"};
  const Answer answer = post(id, "pause");
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.message(), HasSubstr("the pool is full"));
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(row(id).wanted, Wanted::running);
  EXPECT_EQ(row(id).end_at, end_at);
  EXPECT_EQ(who(id), 200);
  plane.node().move_error.reset();
  EXPECT_EQ(post(id, "pause").status, 204);
}

// T01: each waits for what is under way instead of failing, and the last wish holds.
TEST_F(PauseTest, T01ConnectDuringAPauseWaitsForItAndResumes) {
  const std::string id = plane.create();
  plane.node().moves_hang = true;
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  until_state(id, State::pausing);
  EXPECT_EQ(detail(id), "pausing");
  const auto connecting = plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", "{}");
  const auto again = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  let_go();
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  EXPECT_EQ(plane.finish(*connecting).status, 201);
  EXPECT_THAT(plane.finish(*again).status, testing::AnyOf(409, 204));
  EXPECT_EQ(connect(id).status / 100, 2);
  EXPECT_EQ(who(id), 200);
}

TEST_F(PauseTest, WhoWaitsTooLongIsTold) {
  const std::string id = plane.create();
  plane.node().moves_hang = true;
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  until_state(id, State::pausing);
  for (const Answer& answer :
       {connect(id), post(id, "pause"), plane.send(TestPlane::to_sandbox("GET", "/who", id)),
        post(id, "timeout", R"({"timeout":5})")}) {
    EXPECT_EQ(answer.status, 409);
    EXPECT_THAT(answer.message(), HasSubstr("still transitioning. Try again in a moment"));
  }
  let_go();
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  EXPECT_EQ(connect(id).status, 201);
}

// T06: of a sandbox that requests may wake.
TEST_F(PauseTest, T06RequestsInTheMiddleOfAPauseAreServed) {
  const std::string id =
      plane.create(R"({"templateID":"base","timeout":600,"autoPause":true,"autoResume":{"enabled":true}})");
  plane.node().moves_hang = true;
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  until_state(id, State::pausing);
  std::vector<std::unique_ptr<TestPlane::Sending>> reads;
  for (int i = 0; i < 20; ++i)
    reads.push_back(plane.begin(TestPlane::to_sandbox("GET", "/who", id, i % 2 == 0 ? 49983 : 8080)));
  let_go();
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  for (const auto& read : reads) {
    const Answer answer = plane.finish(*read);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(id));
  }
  EXPECT_EQ(std::ranges::count(plane.node().moves, "resume " + id), 1);
}

TEST_F(PauseTest, ARequestWakesWhatItMayAndGivesItANewLife) {
  const std::string id =
      plane.create(R"({"templateID":"base","timeout":900,"autoPause":true,"autoResume":{"enabled":true}})");
  const std::string brief =
      plane.create(R"({"templateID":"base","timeout":5,"autoPause":true,"autoResume":{"enabled":true}})");
  for (const std::string& one : {id, brief}) EXPECT_EQ(post(one, "pause").status, 204);
  EXPECT_EQ(who(id), 200);
  EXPECT_EQ(row(id).end_at, in(900));
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(who(brief), 200);
  EXPECT_EQ(row(brief).end_at, in(300));  // never too short for what it was woken for
  const std::string body(100'000, 'x');   // a body waits meanwhile
  EXPECT_EQ(post(id, "pause").status, 204);
  auto head = TestPlane::to_sandbox("POST", "/echo", id);
  head.chunked = true;
  EXPECT_EQ(plane.send(std::move(head), body).body, body);
  EXPECT_EQ(post(id, "pause").status, 204);
  plane.node().move_error = Error{Code::exhausted, "no memory left"};
  const Answer full = plane.send(TestPlane::to_sandbox("GET", "/who", id));
  EXPECT_EQ(full.status, 503);
  EXPECT_THAT(full.message(), HasSubstr("no memory left"));
}

// A key of the traffic is asked for before anything is woken.
TEST_F(PauseTest, StrangersWakeNothing) {
  const std::string id = plane.create(
      R"({"templateID":"base","autoPause":true,"autoResume":{"enabled":true},"network":{"allowPublicTraffic":false}})");
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id, 8080)).status, 403);
  EXPECT_EQ(state(id), "paused");
  EXPECT_EQ(who(id), 200);
  EXPECT_EQ(state(id), "running");
}

TEST_F(PauseTest, APauseBreaksTheStreamsInsteadOfEndingThem) {
  const std::string id = plane.create();
  const auto stream = plane.begin(TestPlane::to_sandbox("GET", "/forever", id));
  plane.run_until([&] { return plane.node().tunnels_open == 1; });
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(plane.finish(*stream).status, 0);
  const Answer health = plane.send(TestPlane::to_sandbox("GET", "/health", id));
  EXPECT_EQ(health.status, 502);
  EXPECT_EQ(health.message(), "The sandbox was not found");
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/", id, 8080)).message(), "The sandbox was not found");
}

// T17: the same path as a pause that was asked for, so nothing that one keeps is lost.
TEST_F(PauseTest, T17ATimeoutPausesAsARequestDoes) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":60,"autoPause":true})");
  const std::string disk =
      plane.create(R"({"templateID":"base","timeout":60,"autoPause":true,"autoPauseMemory":false})");
  const std::string killed = plane.create(R"({"templateID":"base","timeout":60})");
  plane.clock.advance(Millis(60'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] {
    return row(id).state == State::paused && row(disk).state == State::stopped && row(killed).ended_at;
  });
  EXPECT_THAT(plane.node().moves, testing::UnorderedElementsAre("pause " + id, "stop " + disk));
  EXPECT_EQ(who(id), 502);
  EXPECT_EQ(row(id).end_at, plane.clock.wall());
  // And it stays what it was after it came back.
  EXPECT_EQ(connect(id, R"({"timeout":30})").status, 201);
  plane.clock.advance(Millis(30'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return row(id).state == State::paused; });
}

TEST_F(PauseTest, APauseAtATimeoutThatFailsComesAgainAndNeverKills) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":60,"autoPause":true})");
  plane.node().move_error = Error{Code::unavailable, "the pool is full"};
  plane.clock.advance(Millis(60'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return moves() == 1 && row(id).state == State::running; });
  plane.sandboxes().expire_due();  // not at once
  EXPECT_EQ(who(id), 200);
  EXPECT_EQ(moves(), 1U);
  plane.node().move_error.reset();
  plane.clock.advance(Millis(30'000));
  plane.sandboxes().expire_due();
  plane.run_until([&] { return row(id).state == State::paused; });
}

TEST_F(PauseTest, ATimeoutOfASandboxThatRestsIsRefused) {
  const std::string id = paused();
  const Answer answer = post(id, "timeout", R"({"timeout":60})");
  EXPECT_EQ(answer.status, 409);
  EXPECT_THAT(answer.message(), HasSubstr("Connect to it first"));
  EXPECT_EQ(connect(id).status, 201);
  EXPECT_EQ(post(id, "timeout", R"({"timeout":60})").status, 204);
}

// T60: explicit never, connect never shortens, the rule of the creation survives.
TEST(PauseWithoutALimit, T60Never) {
  TestPlane plane(never_s);
  plane.connect_node();
  const std::string id = plane.create(R"({"templateID":"base","timeout":"never"})");
  const auto end_of = [&](const std::string& sandbox) {
    return *require_text(plane.api("GET", "/sandboxes/" + sandbox).json(), "endAt");
  };
  EXPECT_EQ(end_of(id), "9999-12-31T23:59:59Z");
  EXPECT_EQ(plane.api("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":60})").status, 200);
  EXPECT_EQ(end_of(id), "9999-12-31T23:59:59Z");
  plane.clock.advance(std::chrono::duration_cast<Millis>(std::chrono::hours(24 * 365 * 20)));
  plane.sandboxes().expire_due();
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 200);
  plane.restart();
  plane.connect_node();
  EXPECT_EQ(end_of(id), "9999-12-31T23:59:59Z");
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":60})").status, 204);
  EXPECT_NE(end_of(id), "9999-12-31T23:59:59Z");
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":"never"})").status, 204);
  EXPECT_EQ(end_of(id), "9999-12-31T23:59:59Z");
}

// T61: an idle pause is the node's own; clients see a sandbox that runs, and any request finds it so.
TEST_F(PauseTest, T61AnIdlePauseIsInvisible) {
  const std::string id = plane.create(R"({"templateID":"base","timeout":600})");
  const Wall end_at = row(id).end_at;
  plane.node().sandboxes.at(id).state = State::paused;
  plane.node().sandboxes.at(id).idle = true;
  plane.node().say(id, State::paused, true);
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(who(id), 200);
  EXPECT_THAT(plane.node().woken, ElementsAre(id));
  EXPECT_EQ(moves(), 0U);
  EXPECT_EQ(row(id).end_at, end_at);
  // Its timeout goes on, and a pause that is asked for is one that is seen.
  plane.node().sandboxes.at(id).state = State::paused;
  plane.node().sandboxes.at(id).idle = true;
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_FALSE(plane.node().sandboxes.at(id).idle);
  EXPECT_EQ(who(id), 502);
}

TEST_F(PauseTest, PausePolicies) {
  const std::string id = plane.create(R"({"templateID":"base","pausePolicy":{"idlePauseSeconds":60}})");
  EXPECT_EQ(plane.node().sandboxes.at(id).policy.at("idle_pause_s"), 60);
  const std::string path = "/v1/sandboxes/" + id + "/pause-policy";
  EXPECT_EQ(plane.api("GET", path).body, R"({"idlePauseSeconds":60,"hotKeepSeconds":null})");
  const Answer set = plane.api("PUT", path, R"({"hotKeepSeconds":10})");
  EXPECT_EQ(set.status, 200);
  EXPECT_EQ(set.body, R"({"idlePauseSeconds":60,"hotKeepSeconds":10})");
  EXPECT_EQ(plane.node().sandboxes.at(id).policy.at("hot_keep_s"), 10);
  EXPECT_EQ(plane.api("PUT", path, R"({"idlePauseSeconds":null})").status, 200);
  EXPECT_TRUE(plane.node().sandboxes.at(id).policy.at("idle_pause_s").is_null());
  EXPECT_EQ(plane.api("PUT", path, R"({"idlePauseSeconds":-1})").status, 400);
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + new_sandbox_id() + "/pause-policy").status, 404);
  // What could not be said is said when the node is back.
  plane.lose_node();
  EXPECT_EQ(plane.api("PUT", path, R"({"idlePauseSeconds":7})").status, 200);
  EXPECT_TRUE(plane.node().sandboxes.at(id).policy.at("idle_pause_s").is_null());
  plane.connect_node();
  plane.run_until([&] { return plane.node().sandboxes.at(id).policy.at("idle_pause_s") == 7; });
}

TEST_F(PauseTest, WhatTheNodeSaysIsShownToThoseWhoAsk) {
  const std::string id = plane.create();
  const std::string path = "/v1/sandboxes/" + id;
  plane.node().sandboxes.at(id).restored_from = JsonObject{{"sandbox", "itemplate"}, {"number", 1}};
  const JsonObject shown = plane.api("GET", path).json();
  EXPECT_EQ(*require_text(shown, "sandboxID"), id);
  EXPECT_EQ(*require_text(shown, "memory"), "live");
  EXPECT_EQ(shown.at("idle"), false);
  EXPECT_EQ(shown.at("generationCounter"), 4);
  EXPECT_EQ(to_text(shown.at("restoredFrom")), R"({"sandboxID":"itemplate","number":1})");
  EXPECT_EQ(to_text(shown.at("pausePolicy")), R"({"idlePauseSeconds":null,"hotKeepSeconds":null})");
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(*require_text(plane.api("GET", path).json(), "memory"), "hot");
  plane.lose_node();
  EXPECT_TRUE(plane.api("GET", path).json().at("memory").is_null());
  EXPECT_EQ(*require_text(plane.api("GET", path).json(), "state"), "paused");
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + new_sandbox_id()).status, 404);
}

TEST_F(PauseTest, CheckpointsOfARunningSandbox) {
  const std::string id = plane.create();
  const std::string path = "/v1/sandboxes/" + id + "/snapshots";
  EXPECT_EQ(plane.api("GET", path).body, R"({"snapshots":[]})");
  const Answer made = plane.api("POST", path);
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json().at("number"), 1);
  EXPECT_TRUE(made.json().at("parent").is_null());
  EXPECT_EQ(made.json().at("stopWindowUs"), 5000);
  EXPECT_EQ(plane.api("POST", path).json().at("parent"), 1);
  EXPECT_EQ(plane.api("GET", path).json().at("snapshots").as_array().size(), 2U);
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(post(id, "pause").status, 204);
  EXPECT_EQ(plane.api("POST", path).status, 201);  // what it rests as
  EXPECT_EQ(plane.api("POST", "/v1/sandboxes/" + id + "/stop").status, 204);
  const Answer refused = plane.api("POST", path);
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.message(), HasSubstr("no memory"));
  EXPECT_EQ(plane.api("POST", path, R"({"kind":"disk"})").status, 201);
  EXPECT_EQ(plane.api("GET", "/v1/sandboxes/" + new_sandbox_id() + "/snapshots").status, 404);
}

TEST(PauseWithoutNode, IsRefusedBeforeAnythingIsPromised) {
  TestPlane plane;
  plane.connect_node();
  const std::string id = plane.create();
  plane.lose_node();
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 503);
  EXPECT_EQ(*require_text(plane.api("GET", "/sandboxes/" + id).json(), "state"), "running");
  plane.connect_node();
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
}

}  // namespace
}  // namespace space::control
