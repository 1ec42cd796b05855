#include "core/reconcile.h"

#include <gtest/gtest.h>

namespace space {
namespace {

constexpr std::array all_wanted = {Wanted::running, Wanted::paused, Wanted::suspended, Wanted::stopped,
                                   Wanted::deleted};

std::vector<Holdings> all_holdings() {
  std::vector<Holdings> result;
  for (unsigned bits = 0; bits < 16; ++bits)
    result.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
  return result;
}

constexpr std::array all_places = {MemoryPlace::vmm, MemoryPlace::checkpoint, MemoryPlace::none};

std::optional<Remedy> remedy(const Recorded& recorded, const Holdings& held) {
  const auto actions = reconcile({{"i", recorded}}, {{"i", held}});
  EXPECT_LE(actions.size(), 1u);
  if (actions.empty()) return std::nullopt;
  EXPECT_EQ(actions[0].id, "i");
  // A recovery that was interrupted has its cause in its record; a rollback that was has none.
  const bool says_why = actions[0].remedy == Remedy::mark_failed ||
                        (actions[0].remedy == Remedy::recover && recorded.state != State::recovering &&
                         recorded.state != State::stopped);
  EXPECT_EQ(says_why, !actions[0].cause.empty());
  return actions[0].remedy;
}

// What the rules say of a sandbox that nobody wants deleted.
std::optional<Remedy> expected(const Recorded& recorded, const Holdings& held) {
  const bool beside_disk = held.slot || held.vmm || held.vmm_exit;
  const bool ends = recorded.recovery == RecoveryPolicy::none;
  const auto adopt_or_fail = held.vmm ? Remedy::adopt : ends ? Remedy::mark_failed : Remedy::recover;
  switch (recorded.state) {
    case State::creating:
    case State::restoring:
      return Remedy::mark_failed;
    case State::recovering:
      return Remedy::recover;
    case State::paused:
      if (recorded.memory == MemoryPlace::vmm) return adopt_or_fail;
      return beside_disk ? std::optional(Remedy::release_vmm) : std::nullopt;
    case State::resuming:
      return recorded.memory == MemoryPlace::vmm ? adopt_or_fail : Remedy::release_vmm;
    case State::pausing:
      return recorded.wanted == Wanted::stopped && !held.vmm ? Remedy::release_vmm : adopt_or_fail;
    case State::stopped:
      if (recorded.wanted == Wanted::running) return Remedy::recover;
      if (recorded.memory == MemoryPlace::vmm) return std::nullopt;  // never written so
      return beside_disk ? std::optional(Remedy::release_vmm) : std::nullopt;
    case State::running:
    case State::suspending:
      return adopt_or_fail;
    case State::failed:
      if (recorded.memory == MemoryPlace::none)
        return beside_disk ? std::optional(Remedy::release_vmm) : std::nullopt;
      return held.any() ? std::optional(Remedy::remove_leftovers) : std::nullopt;
    default:
      return std::nullopt;
  }
}

constexpr std::array all_policies = {RecoveryPolicy::disk, RecoveryPolicy::checkpoint, RecoveryPolicy::none};

std::vector<Recorded> all_recorded() {
  std::vector<Recorded> result;
  for (const State state : all_states)
    for (const Wanted wanted : all_wanted)
      for (const MemoryPlace memory : all_places)
        for (const RecoveryPolicy policy : all_policies) result.push_back({state, wanted, memory, policy});
  return result;
}

// Every state, wish, place of memory, policy and holding there is, against the rules stated as rules.
TEST(Reconcile, EveryCombination) {
  for (const Recorded& recorded : all_recorded())
    for (const Holdings& held : all_holdings()) {
      SCOPED_TRACE(testing::Message()
                   << to_string(recorded.state) << " wanted " << to_string(recorded.wanted) << " memory "
                   << to_string(recorded.memory) << " recovery " << to_string(recorded.recovery) << " disk "
                   << held.disk << " slot " << held.slot << " vmm " << held.vmm << " exit " << held.vmm_exit);
      const bool is_deleted = recorded.wanted == Wanted::deleted || recorded.state == State::deleted;
      EXPECT_EQ(remedy(recorded, held), is_deleted ? Remedy::finish_deletion : expected(recorded, held));
    }
}

TEST(Reconcile, WhatNobodyRecordedIsRemoved) {
  for (const Holdings& held : all_holdings()) {
    const auto actions = reconcile({}, {{"i", held}});
    ASSERT_EQ(actions.size(), held.any() ? 1u : 0u);
    if (held.any()) EXPECT_EQ(actions[0].remedy, Remedy::remove_orphan);
  }
}

TEST(Reconcile, ARecordWithoutAnythingInTheKernel) {
  const auto actions = reconcile({{"a", {.state = State::running}},
                                  {"b", {.state = State::failed}},
                                  {"c", {.state = State::running, .recovery = RecoveryPolicy::none}}},
                                 {});
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions[0].id, "a");
  EXPECT_EQ(actions[0].remedy, Remedy::recover) << "a snapshot may be all that is left";
  EXPECT_EQ(actions[1].id, "c");
  EXPECT_EQ(actions[1].remedy, Remedy::mark_failed);
}

TEST(Reconcile, ManySandboxesInOrder) {
  const Holdings runs{true, true, true, false};
  const Holdings disk{true, false, false, false};
  const auto actions = reconcile({{"b", {.state = State::running}},
                                  {"d", {.state = State::running, .wanted = Wanted::deleted}},
                                  {"a", {.state = State::creating}}},
                                 {{"b", runs}, {"c", disk}, {"d", runs}});
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(actions[0].remedy, Remedy::mark_failed);
  EXPECT_EQ(actions[1].remedy, Remedy::adopt);
  EXPECT_EQ(actions[2].remedy, Remedy::remove_orphan);
  EXPECT_EQ(actions[3].remedy, Remedy::finish_deletion);
}

}  // namespace
}  // namespace space
