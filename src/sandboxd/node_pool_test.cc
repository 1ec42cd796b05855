// The whole sandbox manager: the pool of parked VMs, what fills it and what empties it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

class PoolTest : public NodeTest {
 protected:
  void restart(std::vector<std::string> arguments) {
    kill_manager();
    noded_->manifest = R"({"shape":{"vcpus":1,"memory_mib":512,"disk_mib":4096},"default_user":"user"})";
    more_arguments_ = std::move(arguments);
    start();
  }
  void import() { ASSERT_EQ(call("template/import", {{"digest", digest}}).body.at("checkpoint"), true); }
  JsonObject pool() {
    const JsonArray pools = call("pool/list", {}).body.at("pools").as_array();
    return pools.empty() ? JsonObject() : pools[0].as_object();
  }
  std::int64_t parked() {
    const JsonObject first = pool();
    return first.empty() ? 0 : first.at("parked").to_number<std::int64_t>();
  }
  void until_parked(std::int64_t count) {
    pump_until([&] { return parked() == count; });
  }
  JsonObject kind() { return {{"template", digest}, {"vcpus", 1}, {"memory_mib", 512}, {"disk_mib", 4096}}; }
  // Of all the VMs there are, whoever's.
  std::set<std::string> ids() {
    std::set<std::string> found;
    for (const auto& [id, held] : noded_->sandboxes)
      if (held.vm) found.insert(id);
    return found;
  }
  std::size_t vms() { return ids().size(); }
  // For as long as it takes a fill to have begun and ended.
  void let_it_settle() {
    const Deadline until = Deadline::after(700ms);
    while (!until.passed()) loop_.run_one_for(10ms);
  }
};

TEST_F(PoolTest, CountsWhatItHadAndWhatItHadNot) {
  restart({"--warm-pool", "1"});
  import();
  until_parked(1);
  const std::string id(call("pool/take", kind()).body.at("id").as_string());
  EXPECT_EQ(call("pool/take", kind()).status, 404) << "it is kept for who took it first";
  EXPECT_EQ(pool().at("hits"), 1);
  EXPECT_EQ(pool().at("misses"), 1);
  ASSERT_EQ(call("sandbox/create", create_body(id)).status, 200);
  EXPECT_EQ(echo(id, "mine"), "mine");
}

TEST_F(PoolTest, ATargetOfItsOwnIsFilledUpToTheCapAndGivenBack) {
  restart({"--warm-pool", "1", "--warm-pool-max", "3"});
  import();
  until_parked(1);
  ASSERT_EQ(call("pool/set", {{"template", digest}, {"target", 5}}).status, 200);
  until_parked(3);
  EXPECT_EQ(pool().at("target"), 5);
  let_it_settle();
  EXPECT_EQ(parked(), 3);
  EXPECT_EQ(vms(), 3u);
  ASSERT_EQ(call("pool/set", {{"template", digest}, {"target", 0}}).status, 200);
  pump_until([&] { return noded_->holds_nothing(); });
  let_it_settle();
  EXPECT_EQ(vms(), 0u);
  ASSERT_EQ(call("pool/set", {{"template", digest}, {"target", nullptr}}).status, 200);
  until_parked(1);
}

TEST_F(PoolTest, WhoeverCreatesComesBeforeWhatIsParked) {
  memory_limit_mib_ = 3 * (512 + 128) + 10;
  restart({"--warm-pool", "2"});
  import();
  until_parked(2);
  const std::string first = created();
  EXPECT_EQ(parked(), 2);
  const std::string second = created();
  EXPECT_EQ(parked(), 1) << "one made room";
  const std::string third = created();
  EXPECT_EQ(parked(), 0);
  EXPECT_EQ(call("sandbox/create", create_body(new_sandbox_id())).status, 429) << "now it is full";
  EXPECT_EQ(call("sandbox/delete", {{"id", third}}).status, 200);
  EXPECT_EQ(state_of(first), "running");
  EXPECT_EQ(state_of(second), "running");
}

TEST_F(PoolTest, EmptiesWhenItsTemplateGoes) {
  restart({"--warm-pool", "2"});
  import();
  until_parked(2);
  EXPECT_EQ(vms(), 2u);
  ASSERT_EQ(call("template/remove", {{"digest", digest}}).status, 200);
  pump_until([&] { return noded_->holds_nothing() && noded_->snapshots.of.empty(); });
  let_it_settle();
  EXPECT_EQ(vms(), 0u);
  expect_nothing_left();
}

TEST_F(PoolTest, AFillThatFailsLeavesNothingAndIsTriedAgain) {
  restart({"--warm-pool", "1"});
  import();
  until_parked(1);
  for (const noded::Verb verb :
       {noded::Verb::disk_restore, noded::Verb::slot_create, noded::Verb::vmm_launch}) {
    ASSERT_EQ(call("pool/set", {{"template", digest}, {"target", 0}}).status, 200);
    pump_until([&] { return noded_->holds_nothing(); });
    int refused = 0;
    noded_->refuse = [&](noded::Verb asked) -> std::optional<Error> {
      if (asked != verb || refused > 0) return std::nullopt;
      ++refused;
      return Error{Code::unavailable, "not now"};
    };
    ASSERT_EQ(call("pool/set", {{"template", digest}, {"target", 1}}).status, 200);
    pump_until([&] { return refused == 1; });
    pump_until([&] { return noded_->holds_nothing(); });
    until_parked(1);
    EXPECT_EQ(vms(), 1u);
  }
}

TEST_F(PoolTest, AParkedVmThatDiesIsReplaced) {
  restart({"--warm-pool", "1"});
  import();
  until_parked(1);
  const std::string old = *ids().begin();
  noded_->vm(old)->die(SIGKILL);
  pump_until([&] { return !ids().contains(old); });
  until_parked(1);
  EXPECT_EQ(vms(), 1u);
  const Answer taken = call("pool/take", kind());
  ASSERT_EQ(taken.status, 200);
  EXPECT_NE(std::string(taken.body.at("id").as_string()), old);
}

TEST_F(PoolTest, OneThatDiesBeforeItsCreateIsAFreshStart) {
  restart({"--warm-pool", "1"});
  import();
  until_parked(1);
  const std::string id(call("pool/take", kind()).body.at("id").as_string());
  const auto parked_vm = noded_->vm(id);
  parked_vm->die(SIGKILL);
  ASSERT_EQ(call("sandbox/create", create_body(id)).status, 200);
  EXPECT_NE(noded_->vm(id), parked_vm);
  EXPECT_EQ(echo(id, "alive"), "alive");
}

TEST_F(PoolTest, APlannedEndTakesTheParkedOnesAlong) {
  restart({"--warm-pool", "2"});
  import();
  until_parked(2);
  ASSERT_EQ(call("pool/take", kind()).status, 200);  // also one that somebody was promised
  kill_manager(SIGTERM);
  EXPECT_EQ(vms(), 0u);
  EXPECT_TRUE(noded_->holds_nothing());
}

TEST_F(PoolTest, AfterACrashItsOrphansGoAndItFillsAgain) {
  restart({"--warm-pool", "2"});
  import();
  until_parked(2);
  const std::set<std::string> before = ids();
  kill_manager();
  EXPECT_EQ(vms(), 2u) << "nobody ended them";
  start();
  until_parked(2);
  pump_until(
      [&] { return std::ranges::none_of(before, [&](const auto& id) { return ids().contains(id); }); });
  EXPECT_EQ(vms(), 2u);
}

}  // namespace
}  // namespace space
