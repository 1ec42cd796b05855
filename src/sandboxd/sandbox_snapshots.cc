// What a Sandbox keeps of itself: its snapshots are taken, changed and removed here.
#include <algorithm>

#include "base/log.h"
#include "core/lineage.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Large memory on a slow disk.
constexpr Millis checkpoint_limit = 10min;
constexpr Millis verb_limit = 10s;

}  // namespace

Task<Result<SnapshotRecord>> Sandbox::snapshot(SnapshotWish wish, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (!expects_vmm(record_.state))
    co_return fail(Code::conflict, "sandbox {} is {}: there is no memory to keep", record_.id,
                   to_string(record_.state));
  const auto order = std::make_shared<Order>(Order{.kind = Order::Kind::snapshot, .wish = std::move(wish)});
  SPACE_CO_CHECK(co_await give(order, deadline));
  co_return order->snapshot;
}

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

// The head as it is: it holds what there is to keep.
Result<SnapshotRecord> Sandbox::take_head(const SnapshotWish& wish) {
  SnapshotRecord* head = own_snapshot(record_.head);
  if (head == nullptr) return fail(Code::internal, "the checkpoint of {} is gone", record_.id);
  SnapshotRecord changed = *head;
  changed.cause = stronger(changed.cause, wish.cause);
  if (!wish.name.empty()) changed.name = wish.name;
  changed.pinned = changed.pinned || wish.pinned;
  SPACE_CHECK(node_.journal.commit({.snapshots = {changed}}));
  return *head = std::move(changed);
}

Task<Result<void>> Sandbox::do_snapshot(OrderPtr order) {
  if (rests(record_.state) && record_.memory == MemoryPlace::checkpoint) {
    SPACE_CO_TRY(order->snapshot, take_head(order->wish));
    co_return Result<void>();
  }
  const Deadline deadline = Deadline::after(checkpoint_limit);
  auto taken = serves(record_.state)
                   ? co_await checkpoint_running(machine_, node_.desk, next_checkpoint(order->wish), deadline)
                   : co_await checkpoint_stopped(machine_, node_.desk, next_checkpoint(order->wish),
                                                 quiesced_, deadline);
  if (!taken) co_return std::unexpected(taken.error());
  SandboxRecord next = record_;
  next.compared_with = taken->number;
  SPACE_CO_CHECK(co_await keep_snapshot(*taken, std::move(next)));
  order->snapshot = *std::move(taken);
  note(LogLevel::info, "checkpoint taken", {{"number", std::to_string(order->snapshot.number)}});
  co_return Result<void>();
}

// Its VMM reads from it or is compared with it, or its memory is there, or its disk is to come from it.
bool Sandbox::needs_itself(std::uint64_t number) const {
  const bool is_head = number == record_.head;
  if (record_.memory == MemoryPlace::checkpoint || record_.disk_from_head) return is_head;
  return record_.memory == MemoryPlace::vmm &&
         (number == record_.compared_with || record_.restored_from == SnapshotId{record_.id, number});
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
    if (each.cause != SnapshotCause::pause || needs_itself(each.number) || each.pinned || each.published ||
        !each.name.empty())
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
