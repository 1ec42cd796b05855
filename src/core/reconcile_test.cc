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

std::optional<Remedy> remedy(State state, Wanted wanted, const Holdings& held) {
  const auto actions = reconcile({{"i", {state, wanted}}}, {{"i", held}});
  EXPECT_LE(actions.size(), 1u);
  if (actions.empty()) return std::nullopt;
  EXPECT_EQ(actions[0].id, "i");
  EXPECT_EQ(actions[0].remedy == Remedy::mark_failed, !actions[0].cause.empty());
  return actions[0].remedy;
}

// Every state, wish and holding there is, against the rules stated as rules.
TEST(Reconcile, EveryCombination) {
  for (const State state : all_states)
    for (const Wanted wanted : all_wanted)
      for (const Holdings& held : all_holdings()) {
        SCOPED_TRACE(testing::Message()
                     << to_string(state) << " wanted " << to_string(wanted) << " disk " << held.disk
                     << " slot " << held.slot << " vmm " << held.vmm << " exit " << held.vmm_exit);
        const auto found = remedy(state, wanted, held);
        if (wanted == Wanted::deleted || state == State::deleted) {
          EXPECT_EQ(found, Remedy::finish_deletion);
          continue;
        }
        EXPECT_NE(found, Remedy::finish_deletion);
        EXPECT_NE(found, Remedy::remove_orphan);
        switch (state) {
          case State::creating:
          case State::restoring:
          case State::recovering:
            EXPECT_EQ(found, Remedy::mark_failed);
            break;
          case State::running:
          case State::pausing:
          case State::paused:
          case State::resuming:
          case State::suspending:
            EXPECT_EQ(found, held.vmm ? Remedy::adopt : Remedy::mark_failed);
            break;
          case State::failed:
            EXPECT_EQ(found, held.any() ? std::optional(Remedy::remove_leftovers) : std::nullopt);
            break;
          default:
            EXPECT_EQ(found, std::nullopt);
        }
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
  const auto actions =
      reconcile({{"a", {State::running, Wanted::running}}, {"b", {State::failed, Wanted::running}}}, {});
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].id, "a");
  EXPECT_EQ(actions[0].remedy, Remedy::mark_failed);
}

TEST(Reconcile, ManySandboxesInOrder) {
  const Holdings runs{true, true, true, false};
  const Holdings disk{true, false, false, false};
  const auto actions = reconcile({{"b", {State::running, Wanted::running}},
                                  {"d", {State::running, Wanted::deleted}},
                                  {"a", {State::creating, Wanted::running}}},
                                 {{"b", runs}, {"c", disk}, {"d", runs}});
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(actions[0].remedy, Remedy::mark_failed);
  EXPECT_EQ(actions[1].remedy, Remedy::adopt);
  EXPECT_EQ(actions[2].remedy, Remedy::remove_orphan);
  EXPECT_EQ(actions[3].remedy, Remedy::finish_deletion);
}

}  // namespace
}  // namespace space
