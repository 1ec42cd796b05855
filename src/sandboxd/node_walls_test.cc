// The whole sandbox manager: what it says of the walls around a sandbox, and whom it lets in where one is
// missing.
#include <gtest/gtest.h>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

TEST_F(NodeTest, UnderTcgTheNodeIsOneTeams) {
  const std::string first = created();
  const std::string other = new_sandbox_id();
  const auto other_team = [&] { return call("sandbox/create", create_body(other, "b")); };
  const Answer refused = other_team();
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.body.at("code"), "permission_denied");
  EXPECT_NE(refused.body.at("message").as_string().find("allow_tcg_multitenant"), std::string::npos);
  EXPECT_EQ(state_of(other), "");
  created();  // the same team goes on
  kill_manager();
  start();  // whose they are is written down
  EXPECT_EQ(call("sandbox/get", {{"id", first}}).body.at("team"), "a");
  EXPECT_EQ(other_team().status, 403);

  kill_manager();
  allow_tcg_multitenant_ = true;
  start();
  EXPECT_EQ(other_team().status, 200);
}

TEST_F(NodeTest, ATeamGoneLeavesTheNodeToAnother) {
  const std::string dies = created_mortal(), deleted = created();
  noded_->vm(dies)->die(9);
  pump_until([&] { return state_of(dies) == "failed"; });
  EXPECT_EQ(call("sandbox/create", create_body(new_sandbox_id(), "b")).status, 403);
  EXPECT_EQ(call("sandbox/delete", {{"id", deleted}}).status, 200);
  EXPECT_EQ(call("sandbox/create", create_body(new_sandbox_id(), "b")).status, 200);
  EXPECT_EQ(call("sandbox/create", create_body(new_sandbox_id(), "a")).status, 403);
}

TEST_F(NodeTest, TheIsolationOfOneThatRuns) {
  const std::string id = created_mortal();
  noded::IsolationRecord layer{.state = noded::LayerState::active, .layer = "seccomp", .detail = "2 filters"};
  noded_->isolation.assign(reinterpret_cast<const char*>(&layer), sizeof layer);
  const auto isolation = [&] { return call("sandbox/isolation", {{"id", id}}); };
  EXPECT_EQ(to_text(isolation().body),
            R"({"accelerator":"tcg","layers":[{"name":"seccomp","state":"active","detail":"2 filters"}]})");
  noded_->isolation.pop_back();
  EXPECT_EQ(isolation().status, 500);
  EXPECT_EQ(call("sandbox/isolation", {{"id", "i0000000000000000000"}}).status, 404);
  noded_->vm(id)->die(9);
  pump_until([&] { return state_of(id) == "failed"; });
  EXPECT_EQ(isolation().status, 503);
}

// A VMM that was just launched, or that ends, has not its walls as they are while it runs.
TEST_F(NodeTest, TheIsolationIsOfAVmmThatRanBeforeAndAfter) {
  const std::string id = created();
  noded::IsolationRecord layer{.state = noded::LayerState::off, .layer = "descriptors", .detail = "has lib"};
  noded_->isolation.assign(reinterpret_cast<const char*>(&layer), sizeof layer);
  const auto isolation = [&] { return call("sandbox/isolation", {{"id", id}}); };
  EXPECT_EQ(isolation().status, 200) << "while it runs everything is told";
  const auto look = [&](const std::function<void()>& meanwhile) {
    bool looked = false;
    noded_->on_verb = [&](std::size_t, bool done) {
      if (looked || !done || noded_->verbs.back() != noded::Verb::vmm_isolation) return;
      looked = true;
      meanwhile();
    };
    const Answer answer = isolation();
    noded_->on_verb = [](std::size_t, bool) {};
    EXPECT_TRUE(looked);
    return answer.status;
  };
  EXPECT_EQ(look([] {}), 200);
  EXPECT_EQ(look([&] {
              noded_->vm(id)->die(9);
              pump_until([&] { return state_of(id) != "running"; });
            }),
            503);
}

}  // namespace
}  // namespace space
