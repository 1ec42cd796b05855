// Crashes in the middle of a pause, stop or resume: of the control plane, of the node's daemon. Afterwards
// rows and node agree, and what was begun is done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

class PauseCrashTest : public testing::Test {
 protected:
  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  void settle_as(const std::string& id, State state) {
    plane.run_until([&] { return row(id).state == state && plane.node().sandboxes.at(id).state == state; });
    EXPECT_EQ(fulfils(state), row(id).wanted);
  }
  // As a kill -9 of the control plane left them.
  std::string left(State of_row, Wanted wanted, State of_node, bool idle = false) {
    plane.connect_node();
    const std::string id = plane.create(R"({"templateID":"base","timeout":600,"autoPause":true})");
    EXPECT_TRUE(plane.run(plane.repository().set_state(id, {.state = of_row, .wanted = wanted})));
    plane.restart();
    plane.node().sandboxes.at(id).state = of_node;
    plane.node().sandboxes.at(id).idle = idle;
    return id;
  }
  int connect(const std::string& id) {
    return plane.api("POST", "/v2/sandboxes/" + id + "/connect", "{}").status;
  }

  TestPlane plane;
};

struct Crash {
  State of_row;
  Wanted wanted;
  State of_node;
  State after;
};

class EveryCrash : public PauseCrashTest, public testing::WithParamInterface<Crash> {};

TEST_P(EveryCrash, Converges) {
  const Crash crash = GetParam();
  const std::string id = left(crash.of_row, crash.wanted, crash.of_node);
  plane.connect_node();
  settle_as(id, crash.after);
  EXPECT_TRUE(plane.node().deleted.empty());
  EXPECT_EQ(connect(id), crash.after == State::running ? 200 : 201);
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 200);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
}

INSTANTIATE_TEST_SUITE_P(Points, EveryCrash,
                         testing::Values(
                             // A pause: the node never heard of it; had done it; goes on running.
                             Crash{State::pausing, Wanted::paused, State::running, State::paused},
                             Crash{State::pausing, Wanted::paused, State::paused, State::paused},
                             // A stop, from running and from paused.
                             Crash{State::pausing, Wanted::stopped, State::running, State::stopped},
                             Crash{State::pausing, Wanted::stopped, State::paused, State::stopped},
                             Crash{State::pausing, Wanted::stopped, State::stopped, State::stopped},
                             // A resume, from paused and from stopped.
                             Crash{State::resuming, Wanted::running, State::paused, State::running},
                             Crash{State::resuming, Wanted::running, State::stopped, State::running},
                             Crash{State::resuming, Wanted::running, State::running, State::running},
                             // Nothing was under way: the node is the truth.
                             Crash{State::running, Wanted::running, State::paused, State::paused},
                             Crash{State::running, Wanted::running, State::stopped, State::stopped},
                             Crash{State::paused, Wanted::paused, State::running, State::running},
                             Crash{State::paused, Wanted::paused, State::stopped, State::stopped},
                             Crash{State::stopped, Wanted::stopped, State::running, State::running},
                             Crash{State::paused, Wanted::paused, State::paused, State::paused}),
                         [](const auto& info) {
                           return fmt::format("{}_{}_on_{}", to_string(info.param.of_row),
                                              to_string(info.param.wanted), to_string(info.param.of_node));
                         });

TEST_F(PauseCrashTest, AnIdlePauseIsNoNews) {
  const std::string id = left(State::running, Wanted::running, State::paused, true);
  plane.connect_node();
  EXPECT_EQ(row(id).state, State::running);
  EXPECT_EQ(connect(id), 200);
  EXPECT_TRUE(plane.node().moves.empty());
  EXPECT_EQ(plane.send(TestPlane::to_sandbox("GET", "/who", id)).status, 200);
  EXPECT_THAT(plane.node().woken, testing::ElementsAre(id));
}

TEST_F(PauseCrashTest, ANodeThatIsStillAtItIsWaitedFor) {
  const std::string id = left(State::pausing, Wanted::paused, State::pausing);
  plane.connect_node();
  const auto waiting = plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", "{}");
  plane.run_until([&] { return waiting->done(); });
  EXPECT_EQ(waiting->answer().status, 409);
  plane.node().sandboxes.at(id).state = State::paused;
  plane.run_until([&] { return row(id).state == State::paused; });
  EXPECT_EQ(connect(id), 201);
}

TEST_F(PauseCrashTest, WhatRestsHasNoEndEvenWhenItsTimePassed) {
  plane.connect_node();
  const std::string id = plane.create(R"({"templateID":"base","timeout":60})");
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
  plane.clock.advance(Millis(10 * 24 * 3600 * 1000LL));
  plane.restart();
  plane.sandboxes().expire_due();
  plane.connect_node();
  EXPECT_EQ(row(id).state, State::paused);
  EXPECT_EQ(connect(id), 201);
  EXPECT_EQ(plane.sandboxes().live_row(id)->end_at, plane.clock.wall() + std::chrono::seconds(300));
}

TEST_F(PauseCrashTest, ATimeoutThatPassedDuringADowntimePausesAtOnce) {
  plane.connect_node();
  const std::string id = plane.create(R"({"templateID":"base","timeout":60,"autoPause":true})");
  plane.clock.advance(Millis(61'000));
  plane.restart();
  plane.connect_node();
  plane.sandboxes().expire_due();
  settle_as(id, State::paused);
}

TEST_F(PauseCrashTest, APauseOutlivesTheLossOfItsSession) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.node().moves_hang = true;
  const auto pausing = plane.begin_api("POST", "/sandboxes/" + id + "/pause", "{}");
  plane.run_until([&] { return plane.node().moves.size() == 1; });
  plane.lose_node();
  plane.node().moves_hang = false;
  plane.node().wake();
  plane.connect_node();
  EXPECT_EQ(plane.finish(*pausing).status, 204);
  EXPECT_EQ(plane.node().moves.size(), 2U);
  EXPECT_EQ(row(id).state, State::paused);
}

TEST_F(PauseCrashTest, AResumeWhoseNodeLeavesForLongGoesOnWhenItIsBack) {
  plane.connect_node();
  const std::string id = plane.create();
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
  plane.node().moves_hang = true;
  const auto resuming = plane.begin_api("POST", "/v2/sandboxes/" + id + "/connect", "{}");
  plane.run_until([&] { return plane.node().moves.size() == 2; });
  plane.lose_node();
  EXPECT_EQ(plane.finish(*resuming).status, 503);
  EXPECT_EQ(row(id).state, State::resuming);
  plane.node().moves_hang = false;
  plane.node().wake();
  plane.connect_node();
  settle_as(id, State::running);
}

TEST_F(PauseCrashTest, ANodeThatLostItInTheMeantimeEndsIt) {
  const std::string id = left(State::pausing, Wanted::paused, State::running);
  plane.node().sandboxes.clear();
  plane.connect_node();
  plane.run_until([&] { return row(id).ended_at.has_value(); });
  EXPECT_EQ(row(id).state, State::failed);
  EXPECT_EQ(connect(id), 404);
}

TEST_F(PauseCrashTest, ADeathDuringAResumeIsItsEnd) {
  plane.connect_node();
  const std::string id = plane.create();
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
  plane.node().sandboxes.at(id).state = State::failed;
  plane.node().sandboxes.at(id).reason = "its virtual machine was killed by signal 9";
  plane.node().move_error = Error{Code::internal, "the virtual machine ended"};
  EXPECT_EQ(connect(id), 500);
  EXPECT_THAT(plane.api("GET", "/sandboxes/" + id).message(), testing::HasSubstr("signal 9"));
  plane.run_until([&] { return plane.node().sandboxes.empty(); });
}

// T15: a word about what it was is no word about what it is.
TEST_F(PauseCrashTest, T15OldNewsIsNotBelieved) {
  plane.connect_node();
  const std::string id = plane.create();
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + id + "/pause", "{}").status, 204);
  EXPECT_EQ(connect(id), 201);
  const Wall started_at = row(id).started_at;
  plane.node().say(id, State::paused);
  plane.node().say(new_sandbox_id(), State::paused);
  const std::string other = plane.create();
  plane.node().sandboxes.at(other).state = State::stopped;
  plane.node().say(other, State::stopped);  // this one is true
  plane.run_until([&] { return row(other).state == State::stopped; });
  EXPECT_EQ(row(id).state, State::running);
  EXPECT_EQ(row(id).started_at, started_at);
}

TEST_F(PauseCrashTest, LostEventsAreMadeUpFor) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.node().sandboxes.at(id).state = State::failed;
  plane.node().sandboxes.at(id).reason = "out of memory";
  plane.node().lose_events();
  plane.run_until([&] { return row(id).ended_at.has_value(); });
  EXPECT_EQ(row(id).reason, "out of memory");
}

}  // namespace
}  // namespace space::control
