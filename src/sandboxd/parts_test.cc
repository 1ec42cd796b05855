// The parts of the sandbox manager that need no process around them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "base/ids.h"
#include "sandboxd/events.h"
#include "sandboxd/journal.h"
#include "sandboxd/plan_runner.h"
#include "sandboxd/tunnels.h"
#include "sandboxd/vm_sockets.h"

namespace space {
namespace {

template <class T>
T run(boost::asio::io_context& loop, Task<T> task) {
  std::optional<T> result;
  spawn(loop.get_executor(), "test", detail::store_result(std::move(task), &result));
  loop.restart();
  loop.run();
  return *std::move(result);
}

// Keeps what is there, fails where told.
struct FakeExecutor final : PlanExecutor {
  Task<Result<void>> apply(Effect effect, Deadline) override {
    applied.push_back(std::string(name_of(effect)));
    if (applied.size() == fails_at) co_return fail(Code::exhausted, "full");
    co_return Result<void>();
  }
  Task<Result<void>> undo(Undo undo) override {
    undone.push_back(undo);
    if (undo == broken_undo) co_return fail(Code::internal, "stuck");
    co_return Result<void>();
  }
  std::size_t fails_at = 0;
  Undo broken_undo = Undo::none;
  std::vector<std::string> applied;
  std::vector<Undo> undone;
};

TEST(PlanRunner, AppliesEverythingInOrder) {
  boost::asio::io_context loop;
  FakeExecutor executor;
  const StartPlan plan = plan_cold_start({});
  const PlanOutcome outcome = run(loop, run_plan(plan, executor));
  EXPECT_TRUE(outcome.started);
  ASSERT_EQ(executor.applied.size(), plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) EXPECT_EQ(executor.applied[i], name_of(plan[i].effect));
  EXPECT_TRUE(executor.undone.empty());
}

TEST(PlanRunner, AFailureAtAnyStepUndoesItAndAllBeforeInReverse) {
  const StartPlan plan = plan_cold_start({});
  for (std::size_t step = 1; step <= plan.size(); ++step) {
    boost::asio::io_context loop;
    FakeExecutor executor;
    executor.fails_at = step;
    const PlanOutcome outcome = run(loop, run_plan(plan, executor));
    ASSERT_FALSE(outcome.started);
    EXPECT_EQ(outcome.started.error().code, Code::exhausted);
    EXPECT_EQ(outcome.started.error().message, fmt::format("{}: full", name_of(plan[step - 1].effect)));
    EXPECT_TRUE(outcome.unwound);
    EXPECT_EQ(executor.applied.size(), step);
    std::vector<Undo> expected;
    for (std::size_t i = step; i-- > 0;)
      if (plan[i].undo != Undo::none) expected.push_back(plan[i].undo);
    EXPECT_EQ(executor.undone, expected);
  }
}

TEST(PlanRunner, AnUndoThatFailsStopsNoOther) {
  boost::asio::io_context loop;
  FakeExecutor executor;
  executor.broken_undo = Undo::end_vmm;
  const auto outcome = run(loop, unwind(undo_everything(), executor));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "end VMM: stuck");
  EXPECT_EQ(executor.undone, undo_everything());
}

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/space-parts-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};
using JournalTest = FolderTest;
using VmSocketsTest = FolderTest;

SandboxRecord record(const std::string& id) {
  SandboxRecord result;
  result.id = id;
  result.generation = 3;
  result.template_digest = std::string(64, 'a');
  result.shape = {2, 1024, 8192};
  result.team = "a team";
  result.accelerator = MachineAccelerator::kvm;
  return result;
}

TEST_F(JournalTest, KeepsRecordsAcrossAReopen) {
  std::string node_id;
  {
    auto journal = Journal::open(folder_ + "/j");
    ASSERT_TRUE(journal);
    node_id = journal->node_id();
    SandboxRecord a = record("a");
    ASSERT_TRUE(journal->insert(a));
    EXPECT_EQ(journal->insert(a).error().code, Code::conflict);
    a.state = State::failed;
    a.wanted = Wanted::deleted;
    a.reason = "because";
    a.started_at = Wall(Millis(1234));
    ASSERT_TRUE(journal->update(a));
    ASSERT_TRUE(journal->insert(record("b")));
    ASSERT_TRUE(journal->erase("b"));
    ASSERT_TRUE(journal->erase("never there"));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->node_id(), node_id);
  EXPECT_EQ(node_id.size(), 17u);
  const auto records = journal->sandboxes();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1u);
  const SandboxRecord& a = records->front();
  EXPECT_EQ(a.generation, 3);
  EXPECT_EQ(a.shape, (Shape{2, 1024, 8192}));
  EXPECT_EQ(a.team, "a team");
  EXPECT_EQ(a.accelerator, MachineAccelerator::kvm);
  EXPECT_EQ(a.state, State::failed);
  EXPECT_EQ(a.wanted, Wanted::deleted);
  EXPECT_EQ(a.reason, "because");
  EXPECT_EQ(a.started_at, Wall(Millis(1234)));
}

TEST_F(JournalTest, EpochsOnlyGrow) {
  std::uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    auto journal = Journal::open(folder_ + "/j");
    ASSERT_TRUE(journal);
    if (round == 0) ASSERT_TRUE(journal->insert(record("a")));
    const auto epoch = journal->next_epoch("a");
    ASSERT_TRUE(epoch);
    EXPECT_GT(*epoch, last);
    last = *epoch;
  }
  EXPECT_EQ(Journal::open(folder_ + "/j")->next_epoch("b").error().code, Code::not_found);
}

// What a journal had before there were snapshots.
void drop_fourth_schema(Sqlite& db) {
  for (const char* column : {"memory", "idle", "last_snapshot", "compared_with", "source", "source_number",
                             "counter", "idle_pause_s", "hot_keep_s"})
    ASSERT_TRUE(db.execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column)));
  ASSERT_TRUE(db.execute("DROP TABLE snapshots; DROP TABLE template_checkpoints"));
}

TEST_F(JournalTest, ASandboxFromBeforeSnapshotsRunsAndHasNone) {
  ASSERT_TRUE(Journal::open(folder_ + "/j")->insert(record("a")));
  {
    auto old = Sqlite::open(folder_ + "/j");
    drop_fourth_schema(*old);
    ASSERT_TRUE(old->set_schema_version(3));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  const SandboxRecord a = journal->sandboxes()->at(0);
  EXPECT_EQ(a.memory, MemoryPlace::vmm);
  EXPECT_FALSE(a.idle || a.restored_from || a.policy.idle_pause_s);
  EXPECT_EQ(a.counter, 1);
  EXPECT_TRUE(journal->snapshots()->empty());
}

TEST_F(JournalTest, SnapshotsAndTheirRecordChangeTogether) {
  auto journal = Journal::open(folder_ + "/j");
  SandboxRecord a = record("a");
  ASSERT_TRUE(journal->insert(a));
  a.memory = MemoryPlace::checkpoint;
  a.last_snapshot = 2;
  a.idle = true;
  a.restored_from = {"b", 1};
  a.policy.idle_pause_s = 60;
  ASSERT_TRUE(journal->add_snapshot({.sandbox = "a", .number = 2, .parent = 1, .dirty_bytes = 4096}, &a));
  const SandboxRecord read = journal->sandboxes()->at(0);
  EXPECT_EQ(read.memory, MemoryPlace::checkpoint);
  EXPECT_EQ(read.last_snapshot, 2u);
  EXPECT_TRUE(read.idle);
  EXPECT_EQ(read.restored_from, (SnapshotId{"b", 1}));
  EXPECT_EQ(read.policy.idle_pause_s, 60);
  EXPECT_FALSE(read.policy.hot_keep_s);
  ASSERT_EQ(journal->snapshots()->size(), 1u);
  EXPECT_EQ(journal->snapshots()->at(0).parent, 1u);
  EXPECT_EQ(journal->snapshots()->at(0).dirty_bytes, 4096);
  ASSERT_TRUE(journal->add_template_checkpoint({"t", {1, 512, 4096}, "b"}));
  ASSERT_TRUE(journal->add_template_checkpoint({"t", {1, 512, 4096}, "c"}));  // the newer takes its place
  ASSERT_EQ(journal->template_checkpoints()->size(), 1u);
  EXPECT_EQ(journal->template_checkpoints()->at(0).builder, "c");
  ASSERT_TRUE(journal->erase("a"));
  EXPECT_TRUE(journal->snapshots()->empty());
}

TEST_F(JournalTest, TheFirstSchemaIsBroughtUpToDate) {
  std::string node_id;
  {
    auto journal = Journal::open(folder_ + "/j");
    node_id = journal->node_id();
    ASSERT_TRUE(journal->insert(record("a")));
  }
  {
    auto old = Sqlite::open(folder_ + "/j");
    drop_fourth_schema(*old);
    for (const char* column : {"wake_at", "team", "accelerator"})
      ASSERT_TRUE(old->execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column).c_str()));
    ASSERT_TRUE(old->set_schema_version(1));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->node_id(), node_id);
  EXPECT_FALSE(journal->sandboxes()->at(0).wake_at);
  ASSERT_TRUE(journal->set_wake_at("a", Wall(Millis(5))));
  EXPECT_EQ(journal->sandboxes()->at(0).wake_at, Wall(Millis(5)));
  ASSERT_TRUE(journal->set_wake_at("a", std::nullopt));
  EXPECT_FALSE(journal->sandboxes()->at(0).wake_at);
}

TEST_F(JournalTest, TheSecondSchemaHadOneTeamAndAnUnknownAccelerator) {
  ASSERT_TRUE(Journal::open(folder_ + "/j")->insert(record("a")));
  {
    auto old = Sqlite::open(folder_ + "/j");
    drop_fourth_schema(*old);
    for (const char* column : {"team", "accelerator"})
      ASSERT_TRUE(old->execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column).c_str()));
    ASSERT_TRUE(old->execute("UPDATE sandboxes SET wake_at = 5"));
    ASSERT_TRUE(old->set_schema_version(2));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  const SandboxRecord a = journal->sandboxes()->at(0);
  EXPECT_EQ(a.wake_at, Wall(Millis(5)));
  EXPECT_EQ(a.team, "default");
  EXPECT_EQ(a.accelerator, MachineAccelerator::tcg);
  ASSERT_TRUE(journal->insert(record("b")));
  EXPECT_EQ(journal->sandboxes()->at(1).team, "a team");
}

TEST_F(JournalTest, ANewerSchemaIsRefused) {
  ASSERT_TRUE(Journal::open(folder_ + "/j"));
  ASSERT_TRUE(Sqlite::open(folder_ + "/j")->set_schema_version(99));
  EXPECT_EQ(Journal::open(folder_ + "/j").error().code, Code::conflict);
}

TEST_F(VmSocketsTest, AreMadeAnewAndRemovedWithoutATrace) {
  const std::string folder = folder_ + "/vm";
  ASSERT_TRUE(open_vm_sockets(folder));
  EXPECT_TRUE(open_vm_sockets(folder));
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  ASSERT_TRUE(remove_vm_sockets(folder));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(remove_vm_sockets(folder));
  EXPECT_EQ(open_vm_sockets(folder_ + "/" + std::string(120, 'x')).error().code, Code::invalid_argument);
}

TEST(EventLog, PagesAndGaps) {
  boost::asio::io_context loop;
  EventLog log(loop.get_executor());
  const auto page = [&](std::uint64_t after) {
    return run(loop, log.wait(after, Deadline::after(Millis(0))));
  };
  const std::uint64_t start = page(0).next;
  EXPECT_TRUE(page(0).gap);  // whoever comes first has to list
  EXPECT_FALSE(page(start).gap);
  log.publish("a", State::failed, "x");
  log.publish("b", State::running, "");
  EXPECT_EQ(page(start).events.size(), 2u);
  EXPECT_EQ(page(start + 1).events.at(0).id, "b");
  EXPECT_EQ(page(start + 2).events.size(), 0u);
  EXPECT_EQ(page(start).next, start + 2);
  EXPECT_TRUE(page(start + 3).gap);  // from a clock that ran ahead
  for (std::size_t i = 0; i < EventLog::kept; ++i) log.publish("c", State::failed, "");
  EXPECT_TRUE(page(start).gap);
  EXPECT_EQ(page(start).events.size(), EventLog::kept);
}

TEST(EventLog, AWaiterIsWoken) {
  boost::asio::io_context loop;
  EventLog log(loop.get_executor());
  const std::uint64_t start = run(loop, log.wait(0, Deadline::after(Millis(0)))).next;
  boost::asio::post(loop, [&] { log.publish("a", State::failed, "x"); });
  EXPECT_EQ(run(loop, log.wait(start, Deadline::after(std::chrono::hours(1)))).events.size(), 1u);
}

TEST(Tunnels, OnlyASandboxAndAPort) {
  const std::string id = new_sandbox_id();
  const auto target = parse_tunnel_target(id + ":49983");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->sandbox_id, id);
  EXPECT_EQ(target->port, 49983);
  for (const std::string& wrong :
       {id, id + ":", id + ":0", id + ":65536", id + ":80x", id + ":+80", id + ":-1",
        std::string("localhost:80"), std::string(":80"), std::string(), id + ":80:80"})
    EXPECT_FALSE(parse_tunnel_target(wrong)) << wrong;
}

}  // namespace
}  // namespace space
