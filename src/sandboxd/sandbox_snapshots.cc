// What a Sandbox keeps of itself: its snapshots are taken, changed and removed here.
#include <algorithm>

#include "base/log.h"
#include "core/lineage.h"
#include "sandboxd/disk_snapshot.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Large memory on a slow disk.
constexpr Millis checkpoint_limit = 10min;
constexpr Millis verb_limit = 10s;

constexpr bool is_for_others(SnapshotCause cause) {
  return cause == SnapshotCause::fork || cause == SnapshotCause::published;
}

}  // namespace

// What is asked of it
// ----------------------------------------------------------------------------------------

Task<Result<SnapshotRecord>> Sandbox::snapshot(SnapshotWish wish, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (!serves(record_.state) && !rests(record_.state))
    co_return fail(Code::conflict, "sandbox {} is {}: {}", record_.id, to_string(record_.state), reason());
  if (record_.memory == MemoryPlace::none && is_for_others(wish.cause)) wish.kind = SnapshotKind::disk;
  if (record_.memory == MemoryPlace::none && wish.kind == SnapshotKind::full)
    co_return fail(Code::conflict, "sandbox {} is {}: there is no memory to keep; take a disk snapshot",
                   record_.id, to_string(record_.state));
  const auto order = std::make_shared<Order>(Order{.kind = Order::Kind::snapshot, .wish = std::move(wish)});
  SPACE_CO_CHECK(co_await give(order, deadline));
  co_return order->snapshot;
}

Task<Result<void>> Sandbox::remove_snapshot(std::uint64_t number, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline, Until::settled_or_awaits_init));
  co_return co_await give(
      std::make_shared<Order>(Order{.kind = Order::Kind::remove_snapshot, .number = number}), deadline);
}

Result<SnapshotRecord> Sandbox::edit_snapshot(std::uint64_t number, SnapshotEdit edit) {
  SnapshotRecord* snapshot = own_snapshot(number);
  if (snapshot == nullptr) return fail(Code::not_found, "sandbox {} has no snapshot {}", record_.id, number);
  SnapshotRecord changed = *snapshot;
  if (edit.name) changed.name = *std::move(edit.name);
  changed.pinned = edit.pinned.value_or(changed.pinned);
  changed.published = edit.published.value_or(changed.published);
  SPACE_CHECK(node_.journal.commit({.snapshots = {changed}}));
  return *snapshot = std::move(changed);
}

// What it does
// -----------------------------------------------------------------------------------------------

SnapshotRecord* Sandbox::own_snapshot(std::uint64_t number) {
  const auto found = std::ranges::find(snapshots_, number, &SnapshotRecord::number);
  return found == snapshots_.end() ? nullptr : &*found;
}

CheckpointSpec Sandbox::next_checkpoint(const SnapshotWish& wish) const {
  CheckpointSpec spec;
  spec.id = {record_.id, record_.last_snapshot + 1};
  spec.previous = record_.compared_with;
  spec.manifest = node_.describe(record_);
  spec.manifest.number = static_cast<std::int64_t>(spec.id.number);
  if (record_.head != 0) spec.manifest.parent = static_cast<std::int64_t>(record_.head);
  spec.record.cause = wish.cause;
  spec.record.name = wish.name;
  spec.record.pinned = wish.pinned;
  spec.record.published = wish.cause == SnapshotCause::published;
  if (record_.head != 0) spec.record.parent = record_.head;
  spec.record.team = record_.team;
  spec.record.template_digest = record_.template_digest;
  spec.record.shape = record_.shape;
  return spec;
}

// One that is complete on the pool, with the record as it changed with it: both, or neither. `next` has all
// of it but what every new one changes.
Task<Result<void>> Sandbox::keep_snapshot(SnapshotRecord taken, SandboxRecord next) {
  next.last_snapshot = next.head = taken.number;
  if (const auto written = node_.journal.commit({.record = &next, .snapshots = {taken}}); !written) {
    (void)co_await node_.host.noded.snapshot_remove(record_.id, taken.number, Deadline::after(verb_limit));
    co_return written;
  }
  record_ = std::move(next);
  snapshots_.push_back(std::move(taken));
  co_return Result<void>();
}

// Nothing has changed since its head: that is what there is to keep.
bool Sandbox::is_at_head() const {
  return rests(record_.state) && (record_.memory == MemoryPlace::checkpoint || record_.disk_from_head);
}

// Copies of a guest that was cut in the middle of what it did are for nobody else.
Result<void> Sandbox::check_fit_for_others(const SnapshotRecord& snapshot) const {
  if (!is_for_others(snapshot.cause) || snapshot.quiesced) return {};
  if (rests(record_.state))
    return fail(Code::unavailable,
                "the guest of sandbox {} did not stand still when it was paused: resume it, then try again",
                record_.id);
  return fail(Code::unavailable, "the guest of sandbox {} did not stand still for a snapshot: try again",
              record_.id);
}

// The head as it is.
Result<SnapshotRecord> Sandbox::take_head(const SnapshotWish& wish) {
  SnapshotRecord* head = own_snapshot(record_.head);
  if (head == nullptr) return fail(Code::internal, "the checkpoint of {} is gone", record_.id);
  if (is_for_others(wish.cause) && !head->quiesced)
    return fail(Code::unavailable,
                "the guest of sandbox {} did not stand still when it was paused: resume it, then try again",
                record_.id);
  SnapshotRecord changed = *head;
  changed.cause = stronger(changed.cause, wish.cause);
  if (!wish.name.empty()) changed.name = wish.name;
  changed.pinned = changed.pinned || wish.pinned;
  changed.published = changed.published || wish.cause == SnapshotCause::published;
  SPACE_CHECK(node_.journal.commit({.snapshots = {changed}}));
  return *head = std::move(changed);
}

// On the pool only; nothing is written down of it.
Task<Result<SnapshotRecord>> Sandbox::take(SnapshotWish wish) {
  const Deadline deadline = Deadline::after(checkpoint_limit);
  CheckpointSpec spec = next_checkpoint(wish);
  const bool runs = serves(record_.state);
  if (wish.kind == SnapshotKind::full && runs)
    co_return co_await checkpoint_running(machine_, node_.desk, std::move(spec), deadline);
  if (wish.kind == SnapshotKind::full)
    co_return co_await checkpoint_stopped(machine_, node_.desk, std::move(spec), quiesced_, deadline);
  if (runs)
    co_return co_await take_disk_snapshot(machine_, std::move(spec), DiskUse::running, false, deadline);
  if (rests(record_.state) && record_.memory == MemoryPlace::vmm)
    co_return co_await take_disk_snapshot(machine_, std::move(spec), DiskUse::paused, quiesced_, deadline);
  // It was shut down, unless its VMM died.
  co_return co_await take_disk_snapshot(machine_, std::move(spec), DiskUse::unused, rests(record_.state),
                                        deadline);
}

Task<Result<void>> Sandbox::do_snapshot(OrderPtr order) {
  if (is_at_head()) {
    SPACE_CO_TRY(order->snapshot, take_head(order->wish));
    co_return Result<void>();
  }
  SPACE_CO_TRY(SnapshotRecord taken, co_await take(order->wish));
  if (const auto fit = check_fit_for_others(taken); !fit) {
    (void)co_await node_.host.noded.snapshot_remove(record_.id, taken.number, Deadline::after(verb_limit));
    co_return fit;
  }
  SandboxRecord next = record_;
  if (taken.kind == SnapshotKind::full) next.compared_with = taken.number;
  crash_point("snapshot-taken");
  SPACE_CO_CHECK(co_await keep_snapshot(taken, std::move(next)));
  note(LogLevel::info, taken.kind == SnapshotKind::full ? "checkpoint taken" : "disk snapshot taken",
       {{"number", std::to_string(taken.number)}});
  order->snapshot = std::move(taken);
  co_return Result<void>();
}

bool Sandbox::needs_itself(std::uint64_t number) const {
  const bool is_head = number == record_.head;
  if (record_.memory == MemoryPlace::checkpoint || record_.disk_from_head) return is_head;
  return record_.memory == MemoryPlace::vmm &&
         (number == record_.compared_with || record_.restored_from == SnapshotId{record_.id, number});
}

Result<void> Sandbox::check_removable(const SnapshotRecord& snapshot) const {
  if (snapshot.published)
    return fail(Code::conflict, "snapshot {} is published: delete the template it is published as first",
                snapshot.number);
  if (needs_itself(snapshot.number) && rests(record_.state) && record_.memory != MemoryPlace::vmm)
    return fail(Code::conflict, "snapshot {} holds what sandbox {} goes on from: resume it first",
                snapshot.number, record_.id);
  if (needs_itself(snapshot.number))
    return fail(Code::conflict,
                "the memory of sandbox {} still reads from snapshot {}: take another full snapshot and pause"
                " it until its memory is cold, or stop it, first",
                record_.id, snapshot.number);
  const auto users = node_.used_by(snapshot.id());
  if (!users.empty())
    return fail(
        Code::conflict,
        "snapshot {} is what sandbox {} began from and still reads its memory from ({} in all): delete"
        " it, or pause it until its memory is cold, first",
        snapshot.number, users.front(), users.size());
  if (node_.is_needed(snapshot.id()))
    return fail(Code::conflict, "a sandbox is just beginning from snapshot {}: try again", snapshot.number);
  return {};
}

Task<Result<void>> Sandbox::do_remove_snapshot(std::uint64_t number) {
  const SnapshotRecord* snapshot = own_snapshot(number);
  if (snapshot == nullptr)
    co_return fail(Code::not_found, "sandbox {} has no snapshot {}", record_.id, number);
  SPACE_CO_CHECK(check_removable(*snapshot));
  const std::string text = fmt::format("{} snapshot {}{} was removed", to_string(snapshot->kind), number,
                                       snapshot->name.empty() ? "" : fmt::format(" \"{}\"", snapshot->name));
  note(LogLevel::info, text);
  co_return co_await drop_snapshot(number, {{.sandbox = record_.id,
                                             .at = system_clock().wall(),
                                             .kind = HistoryKind::snapshot_removed,
                                             .number = number,
                                             .other = std::nullopt,
                                             .text = text}});
}

// Out of the journal first: what a crash leaves on the pool is then known to nobody and removed.
Task<Result<void>> Sandbox::drop_snapshot(std::uint64_t number, std::vector<HistoryRow> history) {
  Removal removal = remove_from_lineage(snapshots_, number, record_.head);
  SandboxRecord next = record_;
  next.head = removal.head;
  if (next.undo == number) next.undo = 0;
  SPACE_CO_CHECK(node_.journal.commit({.record = &next,
                                       .snapshots = removal.reparented,
                                       .removed = {{record_.id, number}},
                                       .history = std::move(history)}));
  record_ = std::move(next);
  for (SnapshotRecord& changed : removal.reparented) *own_snapshot(changed.number) = std::move(changed);
  std::erase_if(snapshots_, [&](const SnapshotRecord& s) { return s.number == number; });
  doomed_.insert(number);
  co_await remove_doomed();
  co_return Result<void>();
}

// What is not removed goes with the next one, with its sandbox, or at the next start.
Task<void> Sandbox::remove_doomed() {
  while (!doomed_.empty()) {
    const std::uint64_t number = *doomed_.begin();
    const auto removed =
        co_await node_.host.noded.snapshot_remove(record_.id, number, Deadline::after(verb_limit));
    if (!removed) {
      log::warn("old snapshot not removed",
                {{"sandbox", record_.id}, {"number", number}, log::Field(removed.error())});
      co_return;
    }
    doomed_.erase(number);
  }
}

// Those that served a pause before the last one, or any when its memory is no longer wanted.
Task<void> Sandbox::drop_old_snapshots() {
  const std::vector<SnapshotRecord> all = snapshots_;
  for (const SnapshotRecord& each : all) {
    if (each.cause != SnapshotCause::pause || needs_itself(each.number) || each.pinned ||
        !each.name.empty() || node_.is_needed(each.id()))
      continue;
    if (const auto dropped = co_await drop_snapshot(each.number, {}); !dropped)
      log::warn("old snapshot not removed", {{"sandbox", record_.id}, log::Field(dropped.error())});
  }
}

// What a checkpoint that was interrupted by the end of an earlier daemon may have left.
Task<void> Sandbox::drop_unfinished() {
  const auto removed = co_await node_.host.noded.snapshot_remove(record_.id, record_.last_snapshot + 1,
                                                                 Deadline::after(verb_limit));
  maybe_unfinished_ = !removed;
}

}  // namespace space
