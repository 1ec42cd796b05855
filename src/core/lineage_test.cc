#include "core/lineage.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace space {
namespace {

SnapshotRecord snapshot(std::uint64_t number, std::optional<std::uint64_t> parent,
                        SnapshotKind kind = SnapshotKind::full) {
  SnapshotRecord record;
  record.sandbox = "a";
  record.number = number;
  record.parent = parent;
  record.kind = kind;
  record.created_at = Wall(Millis(1000 * static_cast<std::int64_t>(number)));
  return record;
}

std::vector<std::uint64_t> numbers(const std::vector<SnapshotRecord>& snapshots) {
  std::vector<std::uint64_t> result;
  for (const SnapshotRecord& each : snapshots) result.push_back(each.number);
  return result;
}

using Numbers = std::vector<std::uint64_t>;

// 1 - 2 - 3 - 4 was abandoned by a rollback to 2, from which 5 came.
std::vector<SnapshotRecord> branched() {
  return {snapshot(1, std::nullopt), snapshot(2, 1), snapshot(3, 2), snapshot(4, 3), snapshot(5, 2)};
}

TEST(Lineage, IsTheWayFromTheHead) {
  EXPECT_EQ(numbers(lineage(branched(), 5)), (Numbers{5, 2, 1}));
  EXPECT_EQ(numbers(lineage(branched(), 4)), (Numbers{4, 3, 2, 1}));
  EXPECT_TRUE(lineage(branched(), 0).empty());
  EXPECT_TRUE(lineage(branched(), 9).empty());
  EXPECT_TRUE(on_lineage(branched(), 5, 2));
  EXPECT_FALSE(on_lineage(branched(), 5, 4));
}

// After the rollback and before anything new is kept, the youngest snapshot is one of the abandoned branch:
// whoever goes by time goes on from what its owner has thrown away.
TEST(Lineage, AChoiceByTimeWouldTakeTheAbandonedBranch) {
  std::vector<SnapshotRecord> all = branched();
  all.pop_back();  // the rollback to 2 has just happened
  const std::uint64_t head = 2;
  const auto newest_by_time = std::ranges::max_element(all, {}, &SnapshotRecord::created_at);
  ASSERT_NE(newest_by_time, all.end());
  EXPECT_EQ(newest_by_time->number, 4u);
  EXPECT_FALSE(on_lineage(all, head, newest_by_time->number));
  EXPECT_EQ(lineage(all, head).front().number, 2u);
}

TEST(Lineage, ADamagedJournalEndsIt) {
  EXPECT_EQ(numbers(lineage({snapshot(1, 2), snapshot(2, 1)}, 2)), (Numbers{2, 1}));
  EXPECT_EQ(numbers(lineage({snapshot(2, 1)}, 2)), (Numbers{2}));
}

TEST(Lineage, ChildrenTakeOverTheParentOfWhatIsRemoved) {
  const Removal middle = remove_from_lineage(branched(), 2, 5);
  EXPECT_EQ(numbers(middle.reparented), (Numbers{3, 5}));
  for (const SnapshotRecord& child : middle.reparented) EXPECT_EQ(child.parent, 1u);
  EXPECT_EQ(middle.head, 5u);
  const Removal root = remove_from_lineage(branched(), 1, 5);
  EXPECT_EQ(numbers(root.reparented), (Numbers{2}));
  EXPECT_FALSE(root.reparented.front().parent);
  const Removal head = remove_from_lineage(branched(), 5, 5);
  EXPECT_TRUE(head.reparented.empty());
  EXPECT_EQ(head.head, 2u);
  EXPECT_EQ(remove_from_lineage({snapshot(1, std::nullopt)}, 1, 1).head, 0u);
  EXPECT_TRUE(remove_from_lineage(branched(), 9, 5).reparented.empty());
}

// Whatever the order in which the middle of a chain goes, what is left keeps its order.
TEST(Lineage, AnyRemovalsLeaveOneChain) {
  std::vector<std::uint64_t> order = {2, 3, 4, 5};
  do {
    std::vector<SnapshotRecord> all;
    for (std::uint64_t n = 1; n <= 6; ++n)
      all.push_back(snapshot(n, n == 1 ? std::nullopt : std::optional(n - 1)));
    std::uint64_t head = 6;
    for (const std::uint64_t gone : order) {
      const Removal removal = remove_from_lineage(all, gone, head);
      head = removal.head;
      std::erase_if(all, [&](const SnapshotRecord& s) { return s.number == gone; });
      for (const SnapshotRecord& child : removal.reparented)
        *std::ranges::find(all, child.number, &SnapshotRecord::number) = child;
      EXPECT_EQ(lineage(all, head).size(), all.size());
    }
    EXPECT_EQ(numbers(lineage(all, head)), (Numbers{6, 1}));
  } while (std::ranges::next_permutation(order).found);
}

TEST(Rollback, AFullOneGoesOnAndADiskBoots) {
  const std::vector<SnapshotRecord> all = {snapshot(1, std::nullopt), snapshot(2, 1, SnapshotKind::disk)};
  const auto full = rollback_target(all, 1, 0);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->state, State::paused);
  EXPECT_EQ(full->memory, MemoryPlace::checkpoint);
  const auto disk = rollback_target(all, 2, 0);
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->state, State::stopped);
  EXPECT_EQ(disk->memory, MemoryPlace::none);
  EXPECT_EQ(rollback_target(all, 3, 0).error().code, Code::not_found);
  EXPECT_EQ(rollback_target(all, 0, 0).error().code, Code::not_found);
}

TEST(Rollback, UndoIsTheStateBeforeTheLastOne) {
  EXPECT_EQ(rollback_target(branched(), std::nullopt, 0).error().code, Code::conflict);
  EXPECT_EQ(rollback_target(branched(), std::nullopt, 7).error().code, Code::not_found);
  const auto undo = rollback_target(branched(), std::nullopt, 4);
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->snapshot.number, 4u);
  EXPECT_TRUE(on_lineage(branched(), undo->snapshot.number, 3));  // the abandoned branch is the current one
}

TEST(SnapshotCauses, TheOneThatKeepsItLongerStays) {
  using enum SnapshotCause;
  EXPECT_EQ(stronger(pause, before_rollback), before_rollback);
  EXPECT_EQ(stronger(before_rollback, pause), before_rollback);
  EXPECT_EQ(stronger(asked, fork), asked);
  EXPECT_EQ(stronger(fork, asked), asked);
}

TEST(SnapshotNames, AreReadBack) {
  for (const auto kind : {SnapshotKind::full, SnapshotKind::disk})
    EXPECT_EQ(snapshot_kind_from(to_string(kind)), kind);
  for (const auto cause :
       {SnapshotCause::asked, SnapshotCause::schedule, SnapshotCause::pause, SnapshotCause::fork,
        SnapshotCause::before_rollback, SnapshotCause::before_recovery, SnapshotCause::published})
    EXPECT_EQ(snapshot_cause_from(to_string(cause)), cause);
  EXPECT_FALSE(snapshot_kind_from("memory"));
  EXPECT_FALSE(snapshot_cause_from(""));
}

}  // namespace
}  // namespace space
