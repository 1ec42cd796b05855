// Teams, templates and sandboxes. The rest of what every Repository promises is in
// snapshot_template_contract_test.cc.
#include "store/repository_contract.h"

#include <algorithm>

namespace space::store {
namespace {

TEST_P(RepositoryContract, TeamsAreUnique) {
  EXPECT_EQ(run(repository_->add_team({"t1", "third"})).error().code, Code::conflict);
  EXPECT_EQ(run(repository_->add_team({"t3", "default"})).error().code, Code::conflict);
}

TEST_P(RepositoryContract, AKeyLeadsToItsTeam) {
  EXPECT_FALSE(*run(repository_->has_api_keys()));
  const ApiKey key{std::string(64, 'b'), "t2", "first", at(0)};
  ASSERT_TRUE(run(repository_->add_api_key(key)));
  ASSERT_TRUE(run(repository_->add_api_key(key)));
  reopen();
  EXPECT_TRUE(*run(repository_->has_api_keys()));
  EXPECT_EQ((*run(repository_->team_of_key(key.sha256_hex)))->name, "other");
  EXPECT_FALSE(run(repository_->team_of_key(std::string(64, 'c')))->has_value());
  EXPECT_EQ(run(repository_->add_api_key({std::string(64, 'd'), "nobody", "", at(0)})).error().code,
            Code::not_found);
}

TEST_P(RepositoryContract, ATemplateKeepsItsIdWhenItsDigestChanges) {
  Template base{"id1", "base", std::string(64, 'a'), {1, 512, 4096}, "user", "/home/user", at(0)};
  ASSERT_TRUE(run(repository_->put_template(base)));
  base.id = "id2";
  base.digest = std::string(64, 'b');
  base.shape.memory_mib = 1024;
  const auto stored = run(repository_->put_template(base));
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->id, "id1");
  reopen();
  for (const char* key : {"id1", "base"}) {
    const auto found = run(repository_->find_template(key));
    ASSERT_TRUE(found && *found) << key;
    EXPECT_EQ((*found)->digest, std::string(64, 'b'));
    EXPECT_EQ((*found)->shape.memory_mib, 1024);
    EXPECT_EQ((*found)->default_workdir, "/home/user");
  }
  EXPECT_EQ(run(repository_->list_templates())->size(), 1U);
  EXPECT_EQ((*run(repository_->remove_template("base")))->id, "id1");
  EXPECT_FALSE(run(repository_->remove_template("base"))->has_value());
  EXPECT_FALSE(run(repository_->find_template("id1"))->has_value());
}

TEST_P(RepositoryContract, ASandboxIsReadBackWhole) {
  Sandbox row = sandbox("i1");
  row.options.metadata = {{"a", "b c"}, {"quote\"'", "\n\u00e9"}};
  row.options.allow_internet_access = false;
  row.options.network = R"({"denyOut":["0.0.0.0/0"]})";
  row.options.allow_public_traffic = false;
  row.options.mask_request_host = "localhost:${PORT}";
  row.traffic_token = "traffic";
  row.shape = {2, 1024, 8192};
  row.lifecycle = {.pause_on_timeout = true, .pause_keeps_memory = false, .auto_resume = true};
  row.policy = {.idle_pause_s = 60, .hot_keep_s = std::nullopt};
  row.default_user = "user";
  row.default_workdir = "/srv";
  add(row);
  reopen();
  const auto found = run(repository_->find_sandbox("i1"));
  ASSERT_TRUE(found && *found);
  const Sandbox& read = **found;
  EXPECT_EQ(read.team, "t1");
  EXPECT_EQ(read.state, State::creating);
  EXPECT_EQ(read.wanted, Wanted::running);
  EXPECT_EQ(read.shape, row.shape);
  EXPECT_EQ(read.options.metadata, row.options.metadata);
  EXPECT_EQ(read.options.allow_internet_access, false);
  EXPECT_EQ(read.options.network, row.options.network);
  EXPECT_FALSE(read.options.allow_public_traffic);
  EXPECT_EQ(read.options.mask_request_host, row.options.mask_request_host);
  EXPECT_EQ(read.access_token, row.access_token);
  EXPECT_EQ(read.traffic_token, "traffic");
  EXPECT_TRUE(read.lifecycle.pause_on_timeout);
  EXPECT_FALSE(read.lifecycle.pause_keeps_memory);
  EXPECT_TRUE(read.lifecycle.auto_resume);
  EXPECT_EQ(read.policy, row.policy);
  EXPECT_EQ(read.default_user, "user");
  EXPECT_EQ(read.default_workdir, "/srv");
  EXPECT_EQ(read.started_at, row.started_at);
  EXPECT_EQ(read.end_at, row.end_at);
  EXPECT_FALSE(read.ended_at);
  EXPECT_FALSE(run(repository_->find_sandbox("i2"))->has_value());
  EXPECT_EQ(run(repository_->add_sandbox(row)).error().code, Code::conflict);
}

TEST_P(RepositoryContract, RunningKeepsItsTimes) {
  add(sandbox("i1"));
  const auto running = run(repository_->set_state("i1", running_since(10, 310)));
  ASSERT_TRUE(running);
  EXPECT_EQ(running->state, State::running);
  EXPECT_EQ(running->started_at, at(10));
  EXPECT_EQ(run(repository_->set_end("i1", at(99)))->end_at, at(99));
  EXPECT_EQ(run(repository_->set_end("i2", at(99))).error().code, Code::not_found);
}

// Every state can be written and read; a change that names no times or wish leaves them.
TEST_P(RepositoryContract, StatesAndWishesChangeTogether) {
  add(sandbox("i1"));
  const auto paused =
      run(repository_->set_state("i1", {.state = State::paused, .wanted = Wanted::paused, .end_at = at(7)}));
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_EQ(paused->wanted, Wanted::paused);
  EXPECT_EQ(paused->end_at, at(7));
  EXPECT_EQ(paused->started_at, at(0));
  for (const State state : {State::pausing, State::paused, State::resuming, State::stopped, State::running}) {
    ASSERT_TRUE(run(repository_->set_state("i1", {.state = state})));
    reopen();
    const auto read = *run(repository_->find_sandbox("i1"));
    EXPECT_EQ(read->state, state);
    EXPECT_EQ(read->wanted, Wanted::paused);
    EXPECT_EQ(read->end_at, at(7));
    EXPECT_EQ(read->lifecycle.pause_on_timeout, false);
  }
  EXPECT_EQ(run(repository_->set_state("i1", {.state = State::running, .pause_on_timeout = true}))
                ->lifecycle.pause_on_timeout,
            true);
  EXPECT_EQ(run(repository_->set_state("i2", {})).error().code, Code::not_found);
}

// A fault that leaves the disk is no end: the row stays one of those that live, and may change again.
TEST_P(RepositoryContract, AFailureThatIsNoEndSaysWhy) {
  add(sandbox("i1"));
  const auto failed =
      run(repository_->set_state("i1", {.state = State::failed, .reason = "it died too often"}));
  ASSERT_TRUE(failed) << failed.error().message;
  EXPECT_EQ(failed->reason, "it died too often");
  EXPECT_FALSE(failed->ended_at);
  reopen();
  EXPECT_EQ(run(repository_->unfinished_sandboxes())->size(), 1U);
  const auto again = run(repository_->set_state("i1", {.state = State::recovering}));
  EXPECT_EQ(again->state, State::recovering);
  EXPECT_EQ(again->reason, "it died too often");
  EXPECT_EQ(run(repository_->set_state("i1", {.state = State::running, .reason = ""}))->reason, "");
}

TEST_P(RepositoryContract, TheGenerationGrowsWithEveryChangeOfWhatIsWanted) {
  add(sandbox("i1"));
  const auto generation = [&](Wanted wanted) {
    return run(repository_->set_state("i1", {.state = State::pausing, .wanted = wanted}))->generation;
  };
  EXPECT_EQ(generation(Wanted::running), 1);
  EXPECT_EQ(generation(Wanted::paused), 2);
  EXPECT_EQ(generation(Wanted::paused), 2);
  EXPECT_EQ(generation(Wanted::stopped), 3);
  EXPECT_EQ(run(repository_->set_state("i1", {.state = State::stopped}))->generation, 3);
  EXPECT_EQ(run(repository_->want_deleted("i1", "killed"))->generation, 4);
}

TEST_P(RepositoryContract, APausePolicyIsReplaced) {
  add(sandbox("i1"));
  const PausePolicy policy{.idle_pause_s = 30, .hot_keep_s = 600};
  EXPECT_EQ(run(repository_->set_policy("i1", policy))->policy, policy);
  reopen();
  EXPECT_EQ((*run(repository_->find_sandbox("i1")))->policy, policy);
  EXPECT_EQ(run(repository_->set_policy("i1", {}))->policy, PausePolicy());
  EXPECT_EQ(run(repository_->set_policy("i2", {})).error().code, Code::not_found);
  ASSERT_TRUE(run(repository_->want_deleted("i1", "killed")));
  EXPECT_EQ(run(repository_->set_policy("i1", policy)).error().code, Code::conflict);
}

TEST_P(RepositoryContract, WhatASandboxInheritsAndKeeps) {
  Sandbox row = sandbox("i1");
  row.schedule = default_schedule();
  row.recovery = RecoveryPolicy::checkpoint;
  row.origin = SnapshotId{"i0", 7};
  add(row);
  add(sandbox("i2"));
  reopen();
  const auto kept = *run(repository_->find_sandbox("i1"));
  EXPECT_EQ(kept->schedule, default_schedule());
  EXPECT_EQ(kept->recovery, RecoveryPolicy::checkpoint);
  EXPECT_EQ(kept->origin, (SnapshotId{"i0", 7}));
  const auto plain = *run(repository_->find_sandbox("i2"));
  EXPECT_EQ(plain->schedule, std::nullopt);
  EXPECT_EQ(plain->recovery, RecoveryPolicy::disk);
  EXPECT_EQ(plain->origin, std::nullopt);
}

TEST_P(RepositoryContract, AnEgressPolicyIsReplacedWithWhatE2bSaysOfIt) {
  Sandbox row = sandbox("i1");
  row.egress = {R"({"mode":"restricted","allow":["a.example"]})", 3};
  row.options.allow_internet_access = true;
  row.options.network = R"({"allowPublicTraffic":true})";
  add(row);
  add(sandbox("i2"));
  reopen();
  EXPECT_EQ((*run(repository_->find_sandbox("i1")))->egress, row.egress);
  EXPECT_EQ((*run(repository_->find_sandbox("i2")))->egress, (Egress{R"({"mode":"deny_all"})", 0}));
  const EgressChange change{{R"({"mode":"allow_all"})", 4}, false, R"({"denyOut":[]})"};
  const auto changed = run(repository_->set_egress("i1", change));
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->egress, change.egress);
  reopen();
  const auto kept = *run(repository_->find_sandbox("i1"));
  EXPECT_EQ(kept->egress, change.egress);
  EXPECT_EQ(kept->options.allow_internet_access, false);
  EXPECT_EQ(kept->options.network, change.network);
  EXPECT_EQ(kept->generation, 1);
  EXPECT_EQ(run(repository_->set_egress("i1", {}))->options.allow_internet_access, std::nullopt);
  EXPECT_EQ(run(repository_->set_egress("i3", change)).error().code, Code::not_found);
  ASSERT_TRUE(run(repository_->want_deleted("i1", "killed")));
  EXPECT_EQ(run(repository_->set_egress("i1", change)).error().code, Code::conflict);
}

TEST_P(RepositoryContract, ScheduleAndRecoveryAreReplaced) {
  add(sandbox("i1"));
  SnapshotSchedule schedule = default_schedule();
  schedule.quota_bytes = 1 << 30;
  schedule.full.reset();
  EXPECT_EQ(run(repository_->set_schedule("i1", schedule))->schedule, schedule);
  EXPECT_EQ(run(repository_->set_recovery("i1", RecoveryPolicy::none))->recovery, RecoveryPolicy::none);
  reopen();
  EXPECT_EQ((*run(repository_->find_sandbox("i1")))->schedule, schedule);
  EXPECT_EQ((*run(repository_->find_sandbox("i1")))->recovery, RecoveryPolicy::none);
  EXPECT_EQ(run(repository_->set_schedule("i1", std::nullopt))->schedule, std::nullopt);
  EXPECT_EQ(run(repository_->set_schedule("i2", schedule)).error().code, Code::not_found);
  EXPECT_EQ(run(repository_->set_recovery("i2", RecoveryPolicy::disk)).error().code, Code::not_found);
  ASSERT_TRUE(run(repository_->want_deleted("i1", "killed")));
  EXPECT_EQ(run(repository_->set_schedule("i1", schedule)).error().code, Code::conflict);
  EXPECT_EQ(run(repository_->set_recovery("i1", RecoveryPolicy::disk)).error().code, Code::conflict);
}

TEST_P(RepositoryContract, DeleteWins) {
  add(sandbox("i1"));
  const auto wanted = run(repository_->want_deleted("i1", "killed by request"));
  ASSERT_TRUE(wanted);
  EXPECT_TRUE(is_deletion(wanted->wanted));
  EXPECT_EQ(wanted->generation, 2);
  EXPECT_EQ(run(repository_->set_state("i1", running_since(1, 2))).error().code, Code::conflict);
  EXPECT_EQ(run(repository_->set_end("i1", at(99))).error().code, Code::conflict);
  EXPECT_EQ(run(repository_->want_deleted("i1", "again")).error().code, Code::conflict);
  EXPECT_EQ(ids(query()), Ids{});
  EXPECT_EQ(run(repository_->unfinished_sandboxes())->size(), 1U);
}

TEST_P(RepositoryContract, ATombstoneNeverChanges) {
  add(sandbox("i1"));
  add(sandbox("i2"));
  ASSERT_TRUE(run(repository_->want_deleted("i1", "killed by request")));
  ASSERT_TRUE(run(repository_->finish("i1", State::deleted, "", at(5))));
  ASSERT_TRUE(run(repository_->finish("i2", State::failed, "out of memory", at(6))));
  ASSERT_TRUE(run(repository_->finish("i2", State::deleted, "later", at(7))));
  reopen();
  const auto first = *run(repository_->find_sandbox("i1"));
  EXPECT_EQ(first->reason, "killed by request");
  EXPECT_EQ(first->ended_at, at(5));
  const auto second = *run(repository_->find_sandbox("i2"));
  EXPECT_EQ(second->state, State::failed);
  EXPECT_EQ(second->reason, "out of memory");
  EXPECT_EQ(second->ended_at, at(6));
  EXPECT_EQ(run(repository_->want_deleted("i2", "x")).error().code, Code::conflict);
  EXPECT_TRUE(run(repository_->unfinished_sandboxes())->empty());
  EXPECT_EQ(run(repository_->finish("i3", State::failed, "", at(1))).error().code, Code::not_found);
}

TEST_P(RepositoryContract, ListsByEveryFilter) {
  Sandbox one = sandbox("i1", "t1", 1);
  one.options.metadata = {{"a", "1"}, {"b", "2"}};
  Sandbox two = sandbox("i2", "t1", 2);
  two.options.metadata = {{"a", "1"}};
  two.template_name = "other";
  add(one);
  add(two);
  add(sandbox("i3", "t2", 3));
  ASSERT_TRUE(run(repository_->set_state("i2", running_since(2, 9))));

  EXPECT_EQ(ids(query()), (Ids{"i2", "i1"}));
  auto q = query();
  q.order = Order::oldest_first;
  EXPECT_EQ(ids(q), (Ids{"i1", "i2"}));
  q = query();
  q.metadata = {{"a", "1"}};
  EXPECT_EQ(ids(q), (Ids{"i2", "i1"}));
  EXPECT_EQ(*run(repository_->count_sandboxes(q)), 2);
  q.metadata = {{"a", "1"}, {"b", "2"}};
  EXPECT_EQ(ids(q), Ids{"i1"});
  q.metadata = {{"a", "2"}};
  EXPECT_EQ(ids(q), Ids{});
  q = query();
  q.states = {State::running};
  EXPECT_EQ(ids(q), Ids{"i2"});
  q = query();
  q.started_after = at(2);
  EXPECT_EQ(ids(q), Ids{"i2"});
  q = query();
  q.template_id_or_name = "other";
  EXPECT_EQ(ids(q), Ids{"i2"});
  q.template_id_or_name = "tid";
  EXPECT_EQ(ids(q), (Ids{"i2", "i1"}));
  ASSERT_TRUE(run(repository_->set_state("i2", {.state = State::stopped, .wanted = Wanted::stopped})));
  EXPECT_EQ(ids(q), Ids{"i1"});
  q.states = {State::paused, State::stopped};
  EXPECT_EQ(ids(q), Ids{"i2"});
  q.states = {};
  EXPECT_EQ(ids(q), Ids{});
}

TEST_P(RepositoryContract, PagesMeetWithoutGapOrRepeat) {
  Ids expected;
  for (int i = 0; i < 7; ++i) {
    add(sandbox("i" + std::to_string(i), "t1", i / 2));  // pairs start in the same millisecond
    expected.push_back("i" + std::to_string(i));
  }
  for (const Order order : {Order::oldest_first, Order::newest_first}) {
    auto q = query();
    q.order = order;
    q.limit = 3;
    Ids seen;
    for (bool more = true; more;) {
      const auto page = run(repository_->list_sandboxes(q));
      ASSERT_TRUE(page);
      for (const Sandbox& row : page->sandboxes) seen.push_back(row.id);
      more = page->more;
      ASSERT_LE(seen.size(), expected.size());
      ASSERT_FALSE(page->sandboxes.empty());
      q.after = ListPosition{page->sandboxes.back().started_at, page->sandboxes.back().id};
    }
    EXPECT_EQ(seen, expected);
    std::ranges::reverse(expected);
  }
}

TEST_P(RepositoryContract, ConcurrentCallsResumeInTheirOrder) {
  add(sandbox("i1"));
  std::vector<Wall> seen;
  for (int i = 0; i < 50; ++i)
    boost::asio::co_spawn(
        loop_,
        [](Repository& repository, std::vector<Wall>& out, int n) -> Task<void> {
          const auto row = co_await repository.set_end("i1", at(n));
          if (row) out.push_back(row->end_at);
        }(*repository_, seen, i),
        boost::asio::use_future);
  loop_.restart();
  loop_.run();
  ASSERT_EQ(seen.size(), 50U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

INSTANTIATE_TEST_SUITE_P(Repositories, RepositoryContract, contract_implementations(), contract_name);

}  // namespace
}  // namespace space::store
