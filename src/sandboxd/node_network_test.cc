// What a sandbox may reach: told to the gateway before its guest runs, kept, changed, and watched over.
#include <gmock/gmock.h>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

class NetworkTest : public NodeTest {
 protected:
  NetworkTest() { more_arguments_ = {"--slot-check-s", "1"}; }

  JsonObject with_egress(const std::string& id, const char* mode = "restricted",
                         std::int64_t generation = 1) {
    JsonObject body = create_body(id);
    body["egress"] = JsonObject{{"mode", mode}};
    body["egress_generation"] = generation;
    return body;
  }
  std::string created_with(const char* mode) {
    const std::string id = new_sandbox_id();
    const Answer answer = call("sandbox/create", with_egress(id, mode));
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    return id;
  }
  JsonObject object_of(const std::string& id) { return call("sandbox/get", {{"id", id}}).body; }
  std::string network_of(const std::string& id) {
    return std::string(object_of(id).at("network").at("state").as_string());
  }
  std::int64_t generation_of(const std::string& id) {
    return object_of(id).at("egress_generation").as_int64();
  }
  Answer set_egress(const std::string& id, const JsonObject& policy) {
    return call("sandbox/egress", {{"id", id}, {"policy", policy}});
  }
};

TEST_F(NetworkTest, ASandboxBeginsUnderItsOwnPolicyAndLeavesNothing) {
  const std::string id = created_with("restricted");
  EXPECT_TRUE(netd_->gates[id].attached);
  EXPECT_EQ(netd_->gates[id].mode, "restricted");
  EXPECT_EQ(netd_->gates[id].generation, 1);
  EXPECT_EQ(generation_of(id), 1);
  EXPECT_EQ(network_of(id), "ok");
  // Who names nothing gets nothing.
  const std::string silent = created();
  EXPECT_EQ(netd_->gates[silent].mode, "deny_all");
  EXPECT_EQ(generation_of(silent), 0);
  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  EXPECT_FALSE(netd_->gates.contains(id));
  EXPECT_EQ(call("sandbox/delete", {{"id", silent}}).status, 200);
  expect_nothing_left();
}

TEST_F(NetworkTest, AGatewayThatRefusesOrIsSilentLetsNothingStart) {
  netd_->refuse = [](const std::string& name) -> std::optional<Error> {
    if (name != "attach") return std::nullopt;
    return Error{Code::exhausted, "no descriptor is left"};
  };
  const std::string id = new_sandbox_id();
  const Answer refused = call("sandbox/create", with_egress(id));
  EXPECT_NE(refused.status, 200);
  EXPECT_THAT(to_text(refused.body), testing::HasSubstr("no descriptor is left"));
  netd_->refuse = [](const std::string&) { return std::nullopt; };
  EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  netd_->stop();
  const Answer silent = call("sandbox/create", with_egress(new_sandbox_id()));
  EXPECT_EQ(silent.status, 503);
  EXPECT_THAT(to_text(silent.body), testing::HasSubstr("the network gateway does not answer"));
  netd_->start();
  created_with("allow_all");
}

TEST_F(NetworkTest, APolicyIsReplacedEverywhereOrNowhere) {
  const std::string id = created_with("restricted");
  netd_->cut = 3;
  const Answer changed = set_egress(id, {{"mode", "deny_all"}});
  ASSERT_EQ(changed.status, 200) << to_text(changed.body);
  EXPECT_EQ(changed.body.at("generation").as_int64(), 2);
  EXPECT_EQ(changed.body.at("cut").as_int64(), 3);
  EXPECT_EQ(netd_->gates[id].mode, "deny_all");
  EXPECT_EQ(generation_of(id), 2);
  // Nonsense never reaches the gateway.
  const std::size_t calls = netd_->calls.size();
  const Answer wrong = set_egress(id, {{"mode", "sometimes"}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(netd_->calls.size(), calls);
  netd_->refuse = [](const std::string& name) -> std::optional<Error> {
    if (name != "policy") return std::nullopt;
    return Error{Code::internal, "the disk is full"};
  };
  EXPECT_EQ(set_egress(id, {{"mode", "allow_all"}}).status, 500);
  EXPECT_EQ(netd_->gates[id].mode, "deny_all");
  EXPECT_EQ(generation_of(id), 2);
  netd_->refuse = [](const std::string&) { return std::nullopt; };
  EXPECT_EQ(set_egress(id, {{"mode", "allow_all"}}).body.at("generation").as_int64(), 3);
}

TEST_F(NetworkTest, APolicySurvivesAStopAndACrashOfBothDaemons) {
  const std::string id = created_with("restricted");
  EXPECT_EQ(call("sandbox/stop", {{"id", id}}).status, 200);
  EXPECT_FALSE(netd_->gates[id].attached) << "it has no slot now";
  EXPECT_EQ(set_egress(id, {{"mode", "allow_all"}}).body.at("generation").as_int64(), 2) << "in any state";
  kill_manager();
  start();
  EXPECT_EQ(call("sandbox/resume", {{"id", id}, {"access_token", token}, {"boot", true}}).status, 200);
  EXPECT_TRUE(netd_->gates[id].attached);
  EXPECT_EQ(netd_->gates[id].mode, "allow_all");
  EXPECT_EQ(netd_->gates[id].generation, 2);
  // A new manager tells a gateway that was away too.
  kill_manager();
  netd_->stop();
  netd_->gates.clear();
  netd_->start();
  start();
  pump_until([&] { return netd_->gates.contains(id) && netd_->gates[id].attached; });
  EXPECT_EQ(netd_->gates[id].generation, 2);
}

TEST_F(NetworkTest, AGatewayThatComesBackIsToldEverythingAndForgetsWhatIsGone) {
  const std::string id = created_with("restricted"), other = created_with("allow_all");
  netd_->stop();
  pump_until([&] { return network_of(id) == "down"; });
  EXPECT_EQ(object_of(id).at("network").at("reason"), "the network gateway does not answer");
  EXPECT_EQ(state_of(id), "running") << "without network, but it runs";
  EXPECT_EQ(call("sandbox/delete", {{"id", other}}).status, 200);
  netd_->start();
  pump_until([&] { return netd_->gates[id].attached && !netd_->gates.contains(other); });
  pump_until([&] { return network_of(id) == "ok"; });
}

TEST_F(NetworkTest, ASlotThatWasDamagedIsPutRightAndSaidSo) {
  const std::string id = created_with("restricted");
  noded_->sandboxes[id].slot_damaged = true;
  pump_until([&] { return network_of(id) == "repaired"; });
  EXPECT_FALSE(noded_->sandboxes[id].slot_damaged);
  EXPECT_EQ(state_of(id), "running");
}

TEST_F(NetworkTest, AVmWhoseSlotIsAnotherEndsAndIsRecoveredByItsPolicy) {
  const std::string id = created_mortal();
  const auto vm = noded_->vm(id);
  ASSERT_TRUE(vm);
  noded_->sandboxes[id].slot_replaced = true;
  pump_until([&] { return state_of(id) == "failed"; });
  EXPECT_FALSE(vm->running());
  EXPECT_EQ(object_of(id).at("reason"), "its network slot was changed from outside");
}

TEST_F(NetworkTest, WhatTheGatewayKnowsIsRelayed) {
  const std::string id = created_with("restricted");
  const Answer test =
      call("sandbox/egress/test", {{"id", id}, {"url", "https://example.com/"}, {"other", 1}});
  ASSERT_EQ(test.status, 200) << to_text(test.body);
  EXPECT_EQ(test.body.at("call"), "test");
  EXPECT_EQ(test.body.at("asked"), (JsonObject{{"id", id}, {"url", "https://example.com/"}}));
  EXPECT_EQ(call("sandbox/egress/log", {{"id", id}, {"after", 7}}).body.at("call"), "log");
  EXPECT_EQ(call("sandbox/egress/stats", {{"id", id}}).body.at("call"), "stats");
  for (const char* name : {"sandbox/egress/test", "sandbox/egress/log", "sandbox/egress/stats"})
    EXPECT_EQ(call(name, {{"id", new_sandbox_id()}}).status, 404) << name;
}

}  // namespace
}  // namespace space
