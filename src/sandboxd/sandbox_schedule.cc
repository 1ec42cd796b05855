// What a Sandbox keeps of itself by its schedule, and which of its snapshots go because they have served
// their time (core/retention.h). Needs nobody: no control plane has to be there.
#include <algorithm>

#include "base/log.h"
#include "core/retention.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/snapshot_size.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Less than a few ticks of the guest's scheduler is nobody's work.
constexpr std::uint64_t unchanged_cpu_us = 20'000;
constexpr Millis sample_limit = 2s;
// Until one is tried again for which another sandbox's left no room.
constexpr Millis busy_pause = 2s;
// A guest that a new daemon has found is asked what happened, not supposed to have changed.
constexpr Millis reach_limit = 30s;
constexpr Millis retention_pause = 1h;
constexpr Millis measure_limit = 20s;
// Removed in one go; what is asked of the sandbox comes in between.
constexpr std::size_t removals_at_once = 8;
constexpr std::array kinds = {SnapshotKind::disk, SnapshotKind::full};

// Of a schedule; shorter where a test says so.
Millis span(std::int64_t seconds) {
  return seconds * (is_on(Fault::fast_schedule) ? 10ms : 1000ms);
}

}  // namespace

Result<void> Sandbox::set_schedule(std::optional<SnapshotSchedule> schedule) {
  SandboxRecord changed = record_;
  changed.schedule = std::move(schedule);
  SPACE_CHECK(node_.journal.update(changed));
  record_ = std::move(changed);
  for (ScheduledKind& kind : scheduled_) kind = {.looked_at = system_clock().wall()};
  retention_at_ = system_clock().monotonic();
  changed_.notify_all();
  return {};
}

// When the next one of a kind is due; nullopt: never, as it is now. A sandbox that rests changes nothing, and
// what a daemon missed while it was away is one snapshot, however long that was.
std::optional<Wall> Sandbox::schedule_due(SnapshotKind kind) const {
  if (!record_.schedule || !serves(record_.state)) return std::nullopt;
  const auto& wanted = kind == SnapshotKind::disk ? record_.schedule->disk : record_.schedule->full;
  if (!wanted) return std::nullopt;
  Wall last = schedule_since_;
  for (const SnapshotRecord& snapshot : snapshots_)  // the newest is the last
    if (snapshot.cause == SnapshotCause::schedule && snapshot.kind == kind) last = snapshot.created_at;
  if (const auto looked = scheduled_[static_cast<std::size_t>(kind)].looked_at)
    last = std::max(last, *looked);
  const Wall now = system_clock().wall();
  if (last > now) return now;  // a clock that was set back
  return last + span(wanted->every_s);
}

std::optional<SnapshotKind> Sandbox::scheduled_kind_due() const {
  if (system_clock().monotonic() < schedule_busy_until_) return std::nullopt;
  for (const SnapshotKind kind : kinds)
    if (const auto due = schedule_due(kind); due && *due <= system_clock().wall()) return kind;
  return std::nullopt;
}

std::optional<Monotonic> Sandbox::next_scheduled() const {
  const Monotonic now = system_clock().monotonic();
  std::optional<Monotonic> next;
  for (const SnapshotKind kind : kinds) {
    const auto due = schedule_due(kind);
    if (!due) continue;
    const Monotonic at =
        std::max(schedule_busy_until_, now + std::max(Millis(0), *due - system_clock().wall()));
    if (!next || at < *next) next = at;
  }
  if (retention_applies() && (!next || retention_at_ < *next)) next = retention_at_;
  return next;
}

// Whether anything happened since the last of this kind, as far as can be known; and from what it will be
// told the next time.
Task<bool> Sandbox::changed_since(ScheduledKind base, ScheduledKind& now) {
  now.looked_at = system_clock().wall();
  now.at = system_clock().monotonic();
  const bool sampled = co_await meter_->sample_now(Deadline::after(sample_limit));
  if (sampled) now.cpu_used_us = meter_->cpu_used_us();
  if (!base.at || !base.cpu_used_us || !now.cpu_used_us) co_return true;
  if (system_clock().monotonic() - meter_->idle_for() > *base.at) co_return true;
  // A count that fell is a new beginning.
  co_return *now.cpu_used_us < *base.cpu_used_us || *now.cpu_used_us - *base.cpu_used_us >= unchanged_cpu_us;
}

// One at a time on this node, and never in the way of what somebody asked for.
Task<Result<void>> Sandbox::take_scheduled(SnapshotKind kind) {
  const bool is_new_here = system_clock().wall() - schedule_since_ < reach_limit;
  const bool not_reached_yet = is_new_here && !machine_->channel()->session();
  if (node_.desk.turns.busy() || not_reached_yet) {
    schedule_busy_until_ = system_clock().monotonic() + busy_pause;
    co_return Result<void>();
  }
  const ScheduledKind base = scheduled_[static_cast<std::size_t>(kind)];
  ScheduledKind seen;
  const bool has_changed = co_await changed_since(base, seen);
  if (order_ || being_deleted() || !serves(record_.state)) co_return Result<void>();
  if (!has_changed) {
    scheduled_[static_cast<std::size_t>(kind)].looked_at = seen.looked_at;
    log::debug("no snapshot: nothing changed", {{"sandbox", record_.id}, {"kind", to_string(kind)}});
    co_return Result<void>();
  }
  const auto order = std::make_shared<Order>(
      Order{.kind = Order::Kind::snapshot, .wish = {.kind = kind, .cause = SnapshotCause::schedule}});
  if (kind == SnapshotKind::disk) {
    // A checkpoint takes its turn itself.
    SPACE_CO_TRY(const auto turn, co_await node_.desk.turns.enter(Deadline::after(busy_pause)));
    SPACE_CO_CHECK(co_await do_snapshot(order));
  } else {
    SPACE_CO_CHECK(co_await do_snapshot(order));
  }
  crash_point("schedule-taken");
  scheduled_[static_cast<std::size_t>(kind)] = seen;
  retention_at_ = system_clock().monotonic();
  co_return Result<void>();
}

// Retention
// ----------------------------------------------------------------------------------------------

bool Sandbox::retention_applies() const {
  return !snapshots_.empty() && !in_transition(record_.state);
}

bool Sandbox::retention_due() const {
  return retention_applies() && system_clock().monotonic() >= retention_at_;
}

std::set<std::uint64_t> Sandbox::needed_snapshots() const {
  std::set<std::uint64_t> needed;
  for (const SnapshotRecord& snapshot : snapshots_)
    if (needs_itself(snapshot.number) || node_.is_needed(snapshot.id())) needed.insert(snapshot.number);
  return needed;
}

Task<Result<void>> Sandbox::apply_retention() {
  // An error is tried again with what else is due; a removal that fails must not be the end of it.
  retention_at_ = system_clock().monotonic() + retention_pause;
  const auto expired = expired_snapshots({snapshots_, record_.head, needed_snapshots()}, record_.schedule,
                                         system_clock().wall());
  std::size_t removed = 0;
  for (const std::uint64_t number : expired) {
    if (order_ || being_deleted() || removed++ == removals_at_once) {
      retention_at_ = system_clock().monotonic();
      co_return Result<void>();
    }
    SPACE_CO_CHECK(co_await drop_snapshot(number, {}));
  }
  if (record_.schedule && record_.schedule->quota_bytes)
    co_return co_await apply_quota(*record_.schedule->quota_bytes);
  co_return Result<void>();
}

Task<Result<std::map<std::uint64_t, std::int64_t>>> Sandbox::measure_exclusive() {
  std::map<std::uint64_t, std::int64_t> measured;
  const std::vector<SnapshotRecord> all = snapshots_;
  for (const SnapshotRecord& snapshot : all) {
    SPACE_CO_TRY(measured[snapshot.number], co_await exclusive_bytes_of(node_.host.noded, snapshot.id(),
                                                                        Deadline::after(measure_limit)));
  }
  co_return measured;
}

Task<Result<void>> Sandbox::apply_quota(std::int64_t quota_bytes) {
  for (std::size_t removed = 0; !order_ && !being_deleted(); ++removed) {
    if (removed == removals_at_once) break;
    SPACE_CO_TRY(const auto exclusive, co_await measure_exclusive());
    const auto next = next_over_quota({snapshots_, record_.head, needed_snapshots()}, exclusive, quota_bytes);
    if (!next) co_return Result<void>();
    HistoryRow row;
    row.sandbox = record_.id;
    row.at = system_clock().wall();
    row.kind = HistoryKind::snapshot_removed;
    row.number = *next;
    row.text = fmt::format("removed: its snapshots hold more than the {} bytes of its quota", quota_bytes);
    SPACE_CO_CHECK(co_await drop_snapshot(*next, {std::move(row)}));
  }
  retention_at_ = system_clock().monotonic();
  co_return Result<void>();
}

}  // namespace space
