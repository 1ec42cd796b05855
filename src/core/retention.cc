#include "core/retention.h"

#include <algorithm>

#include "core/lineage.h"

namespace space {
namespace {

using Numbers = std::set<std::uint64_t>;
using ByNumber = std::map<std::uint64_t, const SnapshotRecord*>;

ByNumber by_number(const RetentionView& view) {
  ByNumber all;
  for (const SnapshotRecord& snapshot : view.snapshots) all[snapshot.number] = &snapshot;
  return all;
}

// A parent is always older than its child, so every walk ends.
const SnapshotRecord* parent_of(const ByNumber& all, const SnapshotRecord& snapshot) {
  if (!snapshot.parent || *snapshot.parent >= snapshot.number) return nullptr;
  const auto found = all.find(*snapshot.parent);
  return found == all.end() ? nullptr : found->second;
}

Numbers lineage_of(const RetentionView& view) {
  Numbers numbers;
  for (const SnapshotRecord& snapshot : lineage(view.snapshots, view.head)) numbers.insert(snapshot.number);
  return numbers;
}

// When each snapshot's branch was left: the newest that followed it tells, itself where none did.
std::map<std::uint64_t, Wall> left_at(const ByNumber& all) {
  std::map<std::uint64_t, Wall> moments;
  for (const auto& [number, snapshot] : all) moments[number] = snapshot->created_at;
  // Children have higher numbers, so they are done before their parents.
  for (auto at = all.rbegin(); at != all.rend(); ++at)
    if (const SnapshotRecord* parent = parent_of(all, *at->second))
      moments[parent->number] = std::max(moments[parent->number], moments[at->first]);
  return moments;
}

bool is_put_aside(const SnapshotRecord& snapshot) {
  return snapshot.cause == SnapshotCause::before_rollback || snapshot.cause == SnapshotCause::before_recovery;
}

bool is_held(const RetentionView& view, const SnapshotRecord& snapshot) {
  return snapshot.pinned || !snapshot.name.empty() || snapshot.published ||
         snapshot.cause == SnapshotCause::published || snapshot.number == view.head ||
         view.needed.contains(snapshot.number);
}

std::int64_t span_of(Wall time, std::int64_t every_s) {
  const std::int64_t every_ms = every_s * 1000;
  const std::int64_t at = time.time_since_epoch().count();
  return at >= 0 ? at / every_ms : (at - every_ms + 1) / every_ms;
}

// `newest_first`: those of one kind. The newest of each of the newest `count` spans that hold any: a sandbox
// that did nothing for a week keeps what it had.
void keep_tier(const std::vector<const SnapshotRecord*>& newest_first, const KeepTier& tier, Numbers& kept) {
  std::set<std::int64_t> spans;
  for (const SnapshotRecord* snapshot : newest_first) {
    const std::int64_t span = span_of(snapshot->created_at, tier.every_s);
    if (spans.contains(span)) continue;
    if (spans.size() == static_cast<std::size_t>(tier.count)) return;
    spans.insert(span);
    kept.insert(snapshot->number);
  }
}

// Scheduled ones of the lineage that no tier keeps.
void expire_kind(const RetentionView& view, const Numbers& current, SnapshotKind kind,
                 const KindSchedule& schedule, Numbers& expired) {
  std::vector<const SnapshotRecord*> own;
  for (const SnapshotRecord& snapshot : view.snapshots)
    if (snapshot.cause == SnapshotCause::schedule && snapshot.kind == kind &&
        current.contains(snapshot.number))
      own.push_back(&snapshot);
  // By number: a clock that was set back does not make an older one newer.
  std::ranges::sort(own, std::greater{}, &SnapshotRecord::number);
  Numbers kept;
  for (const KeepTier& tier : schedule.keep) keep_tier(own, tier, kept);
  for (const SnapshotRecord* snapshot : own)
    if (!kept.contains(snapshot->number)) expired.insert(snapshot->number);
}

void expire_abandoned(const RetentionView& view, const ByNumber& all, const Numbers& current, Wall now,
                      Numbers& expired) {
  const auto left = left_at(all);
  for (const SnapshotRecord& snapshot : view.snapshots)
    if (snapshot.cause == SnapshotCause::schedule && !current.contains(snapshot.number) &&
        now - left.at(snapshot.number) >= retention_limits::abandoned)
      expired.insert(snapshot.number);
}

void expire_put_aside(const RetentionView& view, Wall now, Numbers& expired) {
  std::vector<const SnapshotRecord*> aside;
  for (const SnapshotRecord& snapshot : view.snapshots)
    if (is_put_aside(snapshot)) aside.push_back(&snapshot);
  std::ranges::sort(aside, std::greater{}, &SnapshotRecord::number);
  for (std::size_t i = 0; i < aside.size(); ++i)
    if (i >= retention_limits::put_aside_most || now - aside[i]->created_at >= retention_limits::put_aside)
      expired.insert(aside[i]->number);
}

// What goes first under the quota; nullopt: not for the quota.
std::optional<int> worth(const SnapshotRecord& snapshot, const Numbers& current) {
  if (is_put_aside(snapshot)) return 2;
  if (snapshot.cause == SnapshotCause::asked) return 3;
  if (snapshot.cause != SnapshotCause::schedule) return std::nullopt;
  return current.contains(snapshot.number) ? 1 : 0;
}

}  // namespace

std::vector<std::uint64_t> expired_snapshots(const RetentionView& view,
                                             const std::optional<SnapshotSchedule>& schedule, Wall now) {
  const ByNumber all = by_number(view);
  const Numbers current = lineage_of(view);
  Numbers expired;
  if (schedule && schedule->disk) expire_kind(view, current, SnapshotKind::disk, *schedule->disk, expired);
  if (schedule && schedule->full) expire_kind(view, current, SnapshotKind::full, *schedule->full, expired);
  expire_abandoned(view, all, current, now, expired);
  expire_put_aside(view, now, expired);
  std::erase_if(expired, [&](std::uint64_t number) { return is_held(view, *all.at(number)); });
  return {expired.begin(), expired.end()};
}

std::optional<std::uint64_t> next_over_quota(const RetentionView& view,
                                             const std::map<std::uint64_t, std::int64_t>& exclusive_bytes,
                                             std::int64_t quota_bytes) {
  std::int64_t held_bytes = 0;
  for (const SnapshotRecord& snapshot : view.snapshots)
    if (const auto bytes = exclusive_bytes.find(snapshot.number); bytes != exclusive_bytes.end())
      held_bytes += bytes->second;
  if (held_bytes <= quota_bytes) return std::nullopt;
  const Numbers current = lineage_of(view);
  std::optional<std::pair<int, std::uint64_t>> next;
  for (const SnapshotRecord& snapshot : view.snapshots) {
    const auto its_worth = worth(snapshot, current);
    if (!its_worth || is_held(view, snapshot)) continue;
    const std::pair candidate{*its_worth, snapshot.number};
    if (!next || candidate < *next) next = candidate;
  }
  return next ? std::optional(next->second) : std::nullopt;
}

}  // namespace space
