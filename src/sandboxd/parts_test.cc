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
    a.egress = R"({"mode":"allow_all"})";
    a.egress_generation = 7;
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
  EXPECT_EQ(a.egress, R"({"mode":"allow_all"})");
  EXPECT_EQ(a.egress_generation, 7);
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

// What a journal had while snapshots followed each other in one line.
void back_to_fourth_schema(Sqlite& db) {
  for (const char* column : {"kind", "cause", "name", "pinned", "published", "team", "template", "vcpus",
                             "memory_mib", "disk_mib"})
    ASSERT_TRUE(db.execute(fmt::format("ALTER TABLE snapshots DROP COLUMN {}", column)));
  for (const char* column : {"head", "undo", "disk_from_head", "origin", "origin_number", "schedule",
                             "recovery", "recovered", "egress", "egress_generation"})
    ASSERT_TRUE(db.execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column)));
  ASSERT_TRUE(
      db.execute("ALTER TABLE snapshots ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;"
                 " DROP TABLE history"));
  ASSERT_TRUE(db.set_schema_version(4));
}

// What a journal had before there were snapshots.
void drop_fourth_schema(Sqlite& db) {
  back_to_fourth_schema(db);
  for (const char* column : {"memory", "idle", "last_snapshot", "compared_with", "source", "source_number",
                             "counter", "idle_pause_s", "hot_keep_s"})
    ASSERT_TRUE(db.execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column)));
  ASSERT_TRUE(db.execute("DROP TABLE snapshots; DROP TABLE template_checkpoints"));
}

TEST_F(JournalTest, ASandboxFromBeforeTheGatewayReachesNothing) {
  {
    auto journal = Journal::open(folder_ + "/j");
    SandboxRecord a = record("a");
    a.egress = R"({"mode":"allow_all"})";
    a.egress_generation = 7;
    ASSERT_TRUE(journal->insert(a));
    EXPECT_EQ(journal->sandboxes()->at(0).egress_generation, 7);
    auto old = Sqlite::open(folder_ + "/j");
    for (const char* column : {"egress", "egress_generation"})
      ASSERT_TRUE(old->execute(fmt::format("ALTER TABLE sandboxes DROP COLUMN {}", column)));
    ASSERT_TRUE(old->set_schema_version(5));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  const SandboxRecord a = journal->sandboxes()->at(0);
  EXPECT_EQ(a.egress, R"({"mode":"deny_all"})");
  EXPECT_EQ(a.egress_generation, 0);
  EXPECT_EQ(a.recovery, RecoveryPolicy::disk) << "the rest is as it was";
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
  const SnapshotRecord taken{.sandbox = "a", .number = 2, .parent = 1, .dirty_bytes = 4096};
  ASSERT_TRUE(journal->commit({.record = &a, .snapshots = {taken}}));
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

TEST_F(JournalTest, AllThatIsKnownOfASnapshotAndItsSandboxIsReadBack) {
  auto journal = Journal::open(folder_ + "/j");
  SandboxRecord a = record("a");
  a.origin = {"b", 7};
  a.schedule = default_schedule();
  a.recovery = RecoveryPolicy::checkpoint;
  ASSERT_TRUE(journal->insert(a));
  a.head = 4;
  a.undo = 3;
  a.disk_from_head = true;
  a.recovered = RecoveryNote{.at = Wall(Millis(9)), .point = {RecoveredFrom::full, 4}, .cause = "it died"};
  SnapshotRecord s{.sandbox = "a", .number = 4, .kind = SnapshotKind::disk, .cause = SnapshotCause::fork};
  s.name = "before lunch";
  s.pinned = s.published = s.quiesced = true;
  s.team = "t";
  s.template_digest = "d";
  s.shape = {2, 1024, 8192};
  s.created_at = Wall(Millis(77));
  ASSERT_TRUE(journal->commit({.record = &a, .snapshots = {s}}));
  const SandboxRecord read = journal->sandboxes()->at(0);
  EXPECT_EQ(read.origin, (SnapshotId{"b", 7}));
  EXPECT_EQ(read.schedule, default_schedule());
  EXPECT_EQ(read.recovery, RecoveryPolicy::checkpoint);
  EXPECT_EQ(read.head, 4u);
  EXPECT_EQ(read.undo, 3u);
  EXPECT_TRUE(read.disk_from_head);
  EXPECT_EQ(read.recovered, a.recovered);
  const SnapshotRecord back = journal->snapshots_of("a")->at(0);
  EXPECT_EQ(back.kind, SnapshotKind::disk);
  EXPECT_EQ(back.cause, SnapshotCause::fork);
  EXPECT_EQ(back.name, "before lunch");
  EXPECT_TRUE(back.pinned && back.published && back.quiesced);
  EXPECT_EQ(back.team, "t");
  EXPECT_EQ(back.template_digest, "d");
  EXPECT_EQ(back.shape, s.shape);
  EXPECT_EQ(back.created_at, s.created_at);
  // Those that outlive their sandbox keep their rows.
  SnapshotRecord other = s;
  other.number = 5;
  ASSERT_TRUE(journal->commit({.snapshots = {other}}));
  ASSERT_TRUE(journal->erase("a", {5}));
  ASSERT_EQ(journal->snapshots()->size(), 1u);
  EXPECT_EQ(journal->snapshots()->at(0).number, 5u);
}

TEST_F(JournalTest, HistoryIsBoundedAndTheNewestStays) {
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal->insert(record("a")));
  ASSERT_TRUE(journal->insert(record("b")));
  JournalChange change;
  change.history.push_back({.sandbox = "b", .kind = HistoryKind::fork, .other = "c", .text = "forked"});
  for (std::int64_t i = 0; i < history_rows_max + 5; ++i)
    change.history.push_back({.sandbox = "a",
                              .at = Wall(Millis(i)),
                              .kind = HistoryKind::rollback,
                              .number = static_cast<std::uint64_t>(i),
                              .other = std::nullopt,
                              .text = "rolled back"});
  ASSERT_TRUE(journal->commit(change));
  const auto a = journal->history("a");
  ASSERT_TRUE(a);
  ASSERT_EQ(a->size(), static_cast<std::size_t>(history_rows_max));
  EXPECT_EQ(a->front().number, 5u);
  EXPECT_EQ(a->back().at, Wall(Millis(history_rows_max + 4)));
  EXPECT_EQ(a->back().kind, HistoryKind::rollback);
  const auto b = journal->history("b");
  ASSERT_EQ(b->size(), 1u);
  EXPECT_EQ(b->at(0).other, "c");
  EXPECT_FALSE(b->at(0).number);
  ASSERT_TRUE(journal->erase("a"));
  EXPECT_TRUE(journal->history("a")->empty());
  EXPECT_EQ(journal->history("b")->size(), 1u);
}

TEST_F(JournalTest, AChangeIsMadeWholeOrNotAtAll) {
  auto journal = Journal::open(folder_ + "/j");
  SandboxRecord a = record("a");
  ASSERT_TRUE(journal->insert(a));
  a.head = 1;
  const SnapshotRecord taken{.sandbox = "a", .number = 1};
  ASSERT_TRUE(Sqlite::open(folder_ + "/j")->execute("DROP TABLE history"));
  EXPECT_FALSE(journal->commit({.record = &a, .snapshots = {taken}, .history = {{.sandbox = "a"}}}));
  EXPECT_EQ(journal->sandboxes()->at(0).head, 0u);
  EXPECT_TRUE(journal->snapshots()->empty());
  ASSERT_TRUE(journal->commit({.record = &a, .snapshots = {taken}}));
  EXPECT_EQ(journal->sandboxes()->at(0).head, 1u);
}

TEST_F(JournalTest, AJournalOfTheFourthSchemaKeepsItsSnapshots) {
  {
    auto journal = Journal::open(folder_ + "/j");
    for (const char* id : {"cold", "itself", "none"}) ASSERT_TRUE(journal->insert(record(id)));
    auto old = Sqlite::open(folder_ + "/j");
    back_to_fourth_schema(*old);
    ASSERT_TRUE(old->execute(
        "UPDATE sandboxes SET memory='checkpoint', last_snapshot=4, source='builder', source_number=1"
        " WHERE id='cold';"
        "UPDATE sandboxes SET last_snapshot=3, source='itself', source_number=3 WHERE id='itself';"
        "UPDATE sandboxes SET last_snapshot=2 WHERE id='none';"));
    // Of `cold`, 2 was asked for, 1 and 3 are gone, 4 holds its memory.
    for (const char* row :
         {"'cold', 2, 1, 10, 1, 1", "'cold', 4, 3, 20, 1, 0", "'itself', 3, NULL, 30, 0, 0"})
      ASSERT_TRUE(old->execute(fmt::format(
          "INSERT INTO snapshots(sandbox, number, parent, created_at, quiesced, kept, memory_bytes,"
          " dirty_bytes, written_bytes, stop_window_us) VALUES ({}, 1, 2, 3, 4)",
          row)));
  }
  auto journal = Journal::open(folder_ + "/j");
  ASSERT_TRUE(journal);
  const auto sandboxes = journal->sandboxes();
  ASSERT_TRUE(sandboxes) << sandboxes.error().message;
  const auto& [cold, itself, none] = std::tie(sandboxes->at(0), sandboxes->at(1), sandboxes->at(2));
  EXPECT_EQ(cold.head, 4u);
  EXPECT_EQ(cold.memory, MemoryPlace::checkpoint);
  EXPECT_EQ(cold.origin, (SnapshotId{"builder", 1}));
  EXPECT_EQ(itself.head, 3u);
  EXPECT_FALSE(itself.origin);
  EXPECT_EQ(none.head, 0u);
  EXPECT_EQ(none.last_snapshot, 2u);
  EXPECT_EQ(none.recovery, RecoveryPolicy::disk);
  EXPECT_FALSE(none.schedule || none.recovered);
  const auto snapshots = journal->snapshots();
  ASSERT_EQ(snapshots->size(), 3u);
  EXPECT_EQ(snapshots->at(0).cause, SnapshotCause::asked);
  EXPECT_FALSE(snapshots->at(0).parent);
  EXPECT_EQ(snapshots->at(1).cause, SnapshotCause::pause);
  EXPECT_EQ(snapshots->at(1).parent, 2u);
  for (const SnapshotRecord& s : *snapshots) {
    EXPECT_EQ(s.kind, SnapshotKind::full);
    EXPECT_EQ(s.team, "a team");
    EXPECT_EQ(s.template_digest, std::string(64, 'a'));
    EXPECT_EQ(s.shape, (Shape{2, 1024, 8192}));
    EXPECT_EQ(s.stop_window_us, 4);
  }
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
