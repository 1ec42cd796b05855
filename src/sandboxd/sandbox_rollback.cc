// How a Sandbox goes back to a snapshot of its own. What it was before is kept, so that it can be undone.
//
// One commit of the journal is the rollback: before it, a crash leaves the sandbox as it was; after it, the
// sandbox goes on from the target, whoever finishes the work.
#include <algorithm>

#include "base/log.h"
#include "sandboxd/disk_snapshot.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis qmp_limit = 15s;
constexpr Millis verb_limit = 10s;

Change way_to(const SnapshotRecord& target) {
  return target.kind == SnapshotKind::full ? Change::rollback_to_memory : Change::rollback_to_disk;
}

}  // namespace

Task<Result<std::uint64_t>> Sandbox::rollback(std::optional<std::uint64_t> number, GuestInit init,
                                              Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  const bool can = serves(record_.state) || (after(record_.state, Change::rollback_to_disk) &&
                                             (!is_failed(record_.state) || disk_kept()));
  if (!can)
    co_return fail(Code::conflict, "sandbox {} is {}: {}", record_.id, to_string(record_.state), reason());
  const auto order = std::make_shared<Order>(
      Order{.kind = Order::Kind::rollback, .init = std::move(init), .number = number});
  SPACE_CO_CHECK(co_await give(order, deadline));
  co_return order->snapshot.number;
}

Task<Result<void>> Sandbox::do_rollback(OrderPtr order) {
  const Monotonic begun = system_clock().monotonic();
  SPACE_CO_TRY(const RollbackTarget target, rollback_target(snapshots_, order->number, record_.undo));
  SPACE_CO_CHECK(co_await check_target(target));
  const SandboxRecord before = record_;
  SPACE_CO_TRY(const SnapshotRecord left, co_await leave_state());
  crash_point("rollback-kept");
  SandboxRecord next = record_;
  next.undo = left.number;
  next.wanted = Wanted::running;
  next.idle = target.memory == MemoryPlace::checkpoint;  // so it goes on by itself after a crash
  auto written =
      being_deleted()
          ? fail(Code::not_found, "sandbox {} was deleted", record_.id)
          : go_to(target, std::move(next), left,
                  fmt::format("went back to {} snapshot {}; what was before is {}",
                              to_string(target.snapshot.kind), target.snapshot.number, left.number));
  if (!written) {
    if (left.number > record_.last_snapshot)
      (void)co_await node_.host.noded.snapshot_remove(record_.id, left.number, Deadline::after(verb_limit));
    if (serves(before.state)) co_await run_on();
    co_return written;
  }
  crash_point("rollback-written");
  meter_->cut_streams();
  auto went_on = co_await go_on_from_head(std::move(order->init));
  crash_point("rollback-restored");
  if (!went_on) {
    if (!being_deleted()) co_await take_back_rollback(before, left);
    co_return fail(went_on.error().code, "sandbox {} did not go on from snapshot {} and is what it was: {}",
                   record_.id, target.snapshot.number, went_on.error().message);
  }
  order->snapshot = left;
  log::info("sandbox rolled back",
            {{"sandbox", record_.id},
             {"to", target.snapshot.number},
             {"left", left.number},
             {"ms", std::chrono::duration_cast<Millis>(system_clock().monotonic() - begun).count()}});
  co_return Result<void>();
}

// Everything that can be known before anything has changed.
Task<Result<void>> Sandbox::check_target(RollbackTarget target) {
  const SnapshotId id = target.snapshot.id();
  SPACE_CO_TRY(const SnapshotFiles files,
               co_await node_.host.noded.snapshot_open(id.sandbox, id.number, Deadline::after(verb_limit)));
  if (target.memory == MemoryPlace::checkpoint)
    SPACE_CO_CHECK(check_restorable_here(node_.host, files.manifest, record_.accelerator));
  if (!expects_vmm(record_.state, record_.memory)) SPACE_CO_CHECK(node_.admit(record_));
  co_return Result<void>();
}

// What it is now, as a snapshot; complete on the pool, and not written down if it is a new one. One that ran
// stands still afterwards; an error: it runs on.
Task<Result<SnapshotRecord>> Sandbox::leave_state() {
  SnapshotWish wish{.kind = SnapshotKind::full, .cause = SnapshotCause::before_rollback};
  if (is_at_head()) {
    const SnapshotRecord* head = own_snapshot(record_.head);
    if (head == nullptr) co_return fail(Code::internal, "the checkpoint of {} is gone", record_.id);
    SnapshotRecord left = *head;
    left.cause = stronger(left.cause, wish.cause);
    co_return left;
  }
  if (record_.memory != MemoryPlace::vmm) wish.kind = SnapshotKind::disk;
  if (!serves(record_.state)) co_return co_await take(wish);
  (void)change(Change::pause_begun, {}, Write::later);
  quiesced_ = co_await machine_->quiesce(true);
  Result<void> still = co_await machine_->stop_vcpus(Deadline::after(qmp_limit));
  auto left = still ? co_await take(wish) : Result<SnapshotRecord>(std::unexpected(still.error()));
  if (!left) co_await run_on();
  co_return left;
}

Task<void> Sandbox::run_on() {
  (void)co_await machine_->cont_vcpus(Deadline::after(qmp_limit));
  co_await machine_->thaw();
  (void)change(Change::pause_failed, {}, Write::later);
}

// The one commit. `next` has what the way there changes; `left` may be new.
Result<void> Sandbox::go_to(const RollbackTarget& target, SandboxRecord next, SnapshotRecord left,
                            std::string text) {
  const auto state = after(record_.state, way_to(target.snapshot));
  if (!state) return fail(Code::internal, "sandbox {} is {}", record_.id, to_string(record_.state));
  next.state = *state;
  next.memory = target.memory;
  next.reason.clear();
  next.head = target.snapshot.number;
  next.last_snapshot = std::max(next.last_snapshot, left.number);
  next.disk_from_head = true;
  next.compared_with = 0;
  next.restored_from.reset();
  HistoryRow row{.sandbox = record_.id,
                 .at = system_clock().wall(),
                 .kind = HistoryKind::rollback,
                 .number = target.snapshot.number,
                 .other = std::nullopt,
                 .text = std::move(text)};
  SPACE_CHECK(node_.journal.commit({.record = &next, .snapshots = {left}, .history = {std::move(row)}}));
  record_ = std::move(next);
  if (SnapshotRecord* known = own_snapshot(left.number))
    *known = std::move(left);
  else
    snapshots_.push_back(std::move(left));
  changed_.notify_all();
  return {};
}

// By itself too, after a crash: wake_due, or the resume that a boot waits for.
Task<Result<void>> Sandbox::go_on_from_head(GuestInit init) {
  vmm_leftovers_ = true;
  while (vmm_leftovers_ && !being_deleted()) co_await drop_vmm();
  if (being_deleted()) co_return fail(Code::not_found, "sandbox {} was deleted", record_.id);
  if (record_.memory == MemoryPlace::checkpoint) co_return co_await do_resume(std::move(init));
  co_return co_await do_boot(std::move(init));
}

// The target did not go on: back to what was left, which runs again if it ran: its memory has the token.
Task<void> Sandbox::take_back_rollback(SandboxRecord before, SnapshotRecord left) {
  const bool full = left.kind == SnapshotKind::full;
  const RollbackTarget back{left, full ? State::paused : State::stopped,
                            full ? MemoryPlace::checkpoint : MemoryPlace::none};
  SandboxRecord next = record_;
  next.undo = before.undo;
  const bool ran = serves(before.state);
  next.wanted = ran ? Wanted::running : full ? Wanted::paused : Wanted::stopped;
  next.idle = ran || before.idle;
  const std::uint64_t failed = record_.head;
  const auto written =
      go_to(back, std::move(next), left,
            fmt::format("did not go on from snapshot {} and is again what it was, {}", failed, left.number));
  if (!written) {
    log::error("rollback not taken back", {{"sandbox", record_.id}, log::Field(written.error())});
    co_return;
  }
  if (ran) (void)co_await go_on_from_head({});
}

}  // namespace space
