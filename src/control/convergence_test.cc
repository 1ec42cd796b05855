// Crashes: of the control plane, of the node's daemon, at awkward moments. Rows and node agree afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

class ConvergenceTest : public testing::Test {
 protected:
  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  std::string add_row() {
    store::Sandbox made;
    made.id = new_sandbox_id();
    made.team = "default";
    made.timeout_s = 300;
    made.started_at = plane.clock.wall();
    made.end_at = made.started_at + std::chrono::seconds(300);
    EXPECT_TRUE(plane.run(plane.repository().add_sandbox(made)));
    return made.id;
  }
  TestPlane plane;
};

TEST_F(ConvergenceTest, RunningSandboxesSurviveARestart) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.restart();
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 200);
  plane.connect_node();
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 200);
  const Answer answer = plane.send(TestPlane::to_sandbox("GET", "/who", id));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(plane.node().deleted.empty());
}

TEST_F(ConvergenceTest, TheApiKeySurvivesARestart) {
  const std::string key = plane.api_key;
  plane.restart();
  EXPECT_EQ(plane.api_key, key);
  EXPECT_EQ(plane.api("GET", "/v2/sandboxes").status, 200);
}

TEST_F(ConvergenceTest, AStartedCreateThatTheNodeNeverGotFails) {
  const std::string id = add_row();
  plane.restart();
  plane.connect_node();
  EXPECT_EQ(row(id).state, State::failed);
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 404);
}

TEST_F(ConvergenceTest, AStartedCreateThatTheNodeFinishedIsAdopted) {
  const std::string id = add_row();
  plane.restart();
  plane.node().sandboxes[id] = {};
  plane.connect_node();
  EXPECT_EQ(row(id).state, State::running);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
}

TEST_F(ConvergenceTest, AStartedCreateThatTheNodeIsStillAtIsUndone) {
  const std::string id = add_row();
  plane.restart();
  plane.node().sandboxes[id].state = State::creating;
  plane.connect_node();
  plane.run_until([&] { return plane.node().sandboxes.empty(); });
  EXPECT_EQ(row(id).state, State::failed);
}

TEST_F(ConvergenceTest, WhatTheNodeHoldsWithoutARowIsRemoved) {
  const std::string id = new_sandbox_id();
  plane.node().sandboxes[id] = {};
  plane.connect_node();
  plane.run_until([&] { return plane.node().sandboxes.empty(); });
  EXPECT_EQ(plane.node().deleted, std::vector<std::string>{id});
}

TEST_F(ConvergenceTest, WhatTheNodeLostIsOver) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.lose_node();
  plane.node().sandboxes.clear();
  plane.connect_node();
  EXPECT_EQ(row(id).state, State::failed);
  EXPECT_THAT(plane.api("GET", "/sandboxes/" + id).message(), HasSubstr("lost"));
}

TEST_F(ConvergenceTest, ADeathDuringAnAbsenceIsNoticed) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.lose_node();
  plane.node().sandboxes[id].state = State::failed;
  plane.node().sandboxes[id].reason = "out of memory";
  plane.connect_node();
  EXPECT_THAT(plane.api("GET", "/sandboxes/" + id).message(), HasSubstr("out of memory"));
  plane.run_until([&] { return plane.node().sandboxes.empty(); });
}

TEST_F(ConvergenceTest, ADeletionIsPromisedWithoutTheNodeAndKeptWithIt) {
  plane.connect_node();
  const std::string id = plane.create();
  plane.lose_node();
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 404);
  EXPECT_EQ(plane.node().sandboxes.size(), 1U);
  plane.restart();
  EXPECT_EQ(plane.api("GET", "/sandboxes/" + id).status, 404);
  plane.connect_node();
  plane.run_until([&] { return plane.node().sandboxes.empty() && row(id).ended_at; });
  EXPECT_EQ(row(id).state, State::deleted);
  EXPECT_EQ(row(id).reason, "it was killed by a request");
}

TEST_F(ConvergenceTest, ATimeoutThatPassedDuringADowntimeKillsAtOnce) {
  plane.connect_node();
  const std::string id = plane.create(R"({"templateID":"base","timeout":60})");
  plane.clock.advance(Millis(61'000));
  plane.restart();
  plane.sandboxes().expire_due();
  plane.connect_node();
  plane.run_until([&] { return plane.node().sandboxes.empty() && row(id).ended_at; });
  EXPECT_THAT(row(id).reason, HasSubstr("timeout"));
}

TEST_F(ConvergenceTest, ACreateOutlivesTheLossOfItsSession) {
  plane.connect_node();
  plane.node().create_hangs = true;
  http::ClientConnection client(plane.dial());
  auto head = TestPlane::request("POST", "/v2/sandboxes", "body");
  head.fields.add("X-API-Key", plane.api_key);
  std::optional<Answer> answer;
  spawn(plane.executor(), "client",
        [](http::ClientConnection& c, http::RequestHead h, std::optional<Answer>& out) -> Task<void> {
          out = co_await exchange(c, std::move(h), R"({"templateID":"base"})");
        }(client, std::move(head), answer));
  plane.run_until([&] { return plane.node().created.size() == 1; });
  plane.lose_node();
  plane.node().create_hangs = false;
  plane.connect_node();
  plane.run_until([&] { return answer.has_value(); });
  EXPECT_EQ(answer->status, 201) << answer->body;
  EXPECT_EQ(plane.node().created.size(), 2U);
  EXPECT_EQ(plane.node().created[0], plane.node().created[1]);
}

TEST_F(ConvergenceTest, DeleteWinsOverACreateUnderWay) {
  plane.connect_node();
  plane.node().create_hangs = true;
  http::ClientConnection client(plane.dial());
  auto head = TestPlane::request("POST", "/v2/sandboxes", "body");
  head.fields.add("X-API-Key", plane.api_key);
  std::optional<Answer> answer;
  spawn(plane.executor(), "client",
        [](http::ClientConnection& c, http::RequestHead h, std::optional<Answer>& out) -> Task<void> {
          out = co_await exchange(c, std::move(h), R"({"templateID":"base"})");
        }(client, std::move(head), answer));
  plane.run_until([&] { return plane.node().created.size() == 1; });
  const std::string id = plane.node().created[0];
  EXPECT_EQ(plane.api("POST", "/v2/sandboxes/" + id + "/connect", "{}").status, 409);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + id).status, 204);
  plane.lose_node();
  plane.connect_node();
  plane.run_until([&] { return answer.has_value(); });
  EXPECT_EQ(answer->status, 409) << answer->body;
  EXPECT_EQ(row(id).state, State::deleted);
}

}  // namespace
}  // namespace space::control
