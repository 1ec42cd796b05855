// Retention: which snapshots of a sandbox have served their time. Pure.
//
// Never go: pinned, named, published and needed ones, and the newest of the current lineage. Only snapshots
// of that lineage take slots of the schedule's tiers: what an abandoned branch holds never pushes out what a
// recovery would go on from. Snapshots that serve a pause or a fork are not decided here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/schedule.h"
#include "core/snapshot.h"

namespace space {

namespace retention_limits {
// After a branch was left, for its scheduled snapshots.
inline constexpr Millis abandoned{std::int64_t{24} * 3600 * 1000};
// What rollbacks and recoveries put aside.
inline constexpr std::size_t put_aside_most = 3;
inline constexpr Millis put_aside{std::int64_t{7} * 24 * 3600 * 1000};
}  // namespace retention_limits

// The snapshots of one sandbox. Parents may be missing.
struct RetentionView {
  const std::vector<SnapshotRecord>& snapshots;
  std::uint64_t head = 0;          // the newest of the current lineage; 0: none
  std::set<std::uint64_t> needed;  // by a sandbox, for its memory or its next start
};

// Those that go now, by number. Without a schedule, or for a kind that it does not take, scheduled ones of
// the current lineage stay: turning it off removes nothing.
std::vector<std::uint64_t> expired_snapshots(const RetentionView& view,
                                             const std::optional<SnapshotSchedule>& schedule, Wall now);

// While the snapshots hold more than `quota_bytes` by themselves: the one that goes next. Scheduled ones of
// abandoned branches first, then those of the lineage, then what was put aside, then what clients asked for;
// of each the oldest. nullopt: they hold no more than that, or nothing of it may go. Only one at a time: what
// it shared with a neighbour may be that one's own afterwards, so everything is measured anew.
std::optional<std::uint64_t> next_over_quota(const RetentionView& view,
                                             const std::map<std::uint64_t, std::int64_t>& exclusive_bytes,
                                             std::int64_t quota_bytes);

}  // namespace space
