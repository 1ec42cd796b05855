// The half of Sandbox that lets it stand still and go on: pause, resume, stop, checkpoint, and what it does
// of that by itself.
#include <algorithm>

#include "base/log.h"
#include "sandboxd/daemon_program.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis qmp_limit = 15s;
constexpr Millis wake_limit = 60s;
// Large memory on a slow disk.
constexpr Millis checkpoint_limit = 10min;
constexpr Millis shut_down_limit = 10s;
constexpr Millis start_turn_limit = 60s;
constexpr Millis verb_limit = 10s;
// Until what failed by itself is tried again.
constexpr Millis retry_after = 30s;
constexpr Millis upgrade_limit = 60s;
constexpr Millis sample_limit = 6s;
// Between the two: the shortest span in which a share of CPU is taken, and a little more.
constexpr Millis idle_look = activity_limits::cpu_window + Millis(200);

long long since(Monotonic start) {
  return std::chrono::duration_cast<Millis>(system_clock().monotonic() - start).count();
}

}  // namespace

// What is asked of it
// ----------------------------------------------------------------------------------------

Task<Result<void>> Sandbox::settled(Deadline deadline) {
  while (true) {
    if (being_deleted()) co_return fail(Code::not_found, "sandbox {} does not exist", record_.id);
    if (!order_ && !in_transition(record_.state)) co_return Result<void>();
    if (!co_await changed_.wait(deadline))
      co_return fail(Code::conflict, "sandbox {} is {}", record_.id, to_string(record_.state));
  }
}

Task<Result<void>> Sandbox::give(OrderPtr order, Deadline deadline) {
  order_ = order;
  changed_.notify_all();
  while (!order->outcome)
    if (!co_await changed_.wait(deadline))
      co_return fail(Code::deadline, "sandbox {} is still {}", record_.id, to_string(record_.state));
  co_return *order->outcome;
}

Task<Result<void>> Sandbox::pause(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (serves(record_.state))
    co_return co_await give(std::make_shared<Order>(Order{.kind = Order::Kind::pause}), deadline);
  if (!after(record_.state, Change::resume_begun))
    co_return fail(Code::conflict, "sandbox {} is {}", record_.id, to_string(record_.state));
  if (record_.idle) {  // from now on it is paused for everybody
    SandboxRecord paused = record_;
    paused.idle = false;
    paused.wanted = Wanted::paused;
    SPACE_CO_CHECK(node_.journal.update(paused));
    record_ = std::move(paused);
  }
  co_return Result<void>();
}

Task<Result<void>> Sandbox::resume(GuestInit init, bool boot, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (serves(record_.state)) co_return Result<void>();
  if (!rests(record_.state))
    co_return fail(Code::conflict, "sandbox {} is {}: {}", record_.id, to_string(record_.state), reason());
  const auto kind = boot ? Order::Kind::boot : Order::Kind::resume;
  co_return co_await give(std::make_shared<Order>(Order{.kind = kind, .init = std::move(init)}), deadline);
}

Task<Result<void>> Sandbox::stop(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (rests(record_.state) && record_.memory == MemoryPlace::none) co_return Result<void>();
  if (!after(record_.state, Change::stop_begun))
    co_return fail(Code::conflict, "sandbox {} is {}", record_.id, to_string(record_.state));
  co_return co_await give(std::make_shared<Order>(Order{.kind = Order::Kind::stop}), deadline);
}

Task<Result<SnapshotRecord>> Sandbox::checkpoint(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await settled(deadline));
  if (!expects_vmm(record_.state))
    co_return fail(Code::conflict, "sandbox {} is {}: there is no memory to keep", record_.id,
                   to_string(record_.state));
  const auto order = std::make_shared<Order>(Order{.kind = Order::Kind::checkpoint});
  SPACE_CO_CHECK(co_await give(order, deadline));
  co_return order->snapshot;
}

Task<Result<void>> Sandbox::keep_for_restart(Deadline deadline) {
  const auto self = shared_from_this();
  closing_ = true;
  SPACE_CO_CHECK(co_await settled(deadline));
  if (!expects_vmm(record_.state, record_.memory)) co_return Result<void>();
  co_return co_await give(std::make_shared<Order>(Order{.kind = Order::Kind::keep}), deadline);
}

Result<void> Sandbox::set_policy(PausePolicy policy) {
  SandboxRecord changed = record_;
  changed.policy = policy;
  SPACE_CHECK(node_.journal.update(changed));
  record_ = std::move(changed);
  changed_.notify_all();
  return {};
}

void Sandbox::touch() {
  meter_->note_call();
  if (!rests(record_.state) || !record_.idle || order_ || being_deleted() || closing_) return;
  order_ = std::make_shared<Order>(Order{.kind = Order::Kind::resume});
  changed_.notify_all();
}

std::string_view Sandbox::memory_word() const {
  if (!expects_vmm(record_.state)) return "none";
  if (record_.memory == MemoryPlace::checkpoint) return "cold";
  if (record_.memory == MemoryPlace::none) return "none";
  return rests(record_.state) ? "hot" : "live";
}

// What it does
// -----------------------------------------------------------------------------------------------

Task<void> Sandbox::carry_out() {
  const OrderPtr order = order_;
  auto outcome = co_await do_order(order);
  if (!outcome)
    log::warn("order failed", {{"sandbox", record_.id},
                               {"order", static_cast<int>(order->kind)},
                               {"state", to_string(record_.state)},
                               log::Field(outcome.error())});
  order->outcome = std::move(outcome);
  order_.reset();
  changed_.notify_all();
}

Task<Result<void>> Sandbox::do_order(OrderPtr order) {
  switch (order->kind) {
    case Order::Kind::pause:
      if (!serves(record_.state)) break;
      co_return co_await do_pause(order->idle);
    case Order::Kind::resume:
      if (!rests(record_.state)) break;
      if (record_.memory == MemoryPlace::none) co_return co_await do_boot(std::move(order->init));
      co_return co_await do_resume(std::move(order->init));
    case Order::Kind::boot:
      if (!rests(record_.state)) break;
      if (record_.memory != MemoryPlace::none) SPACE_CO_CHECK(co_await do_stop());
      co_return co_await do_boot(std::move(order->init));
    case Order::Kind::stop:
      if (!after(record_.state, Change::stop_begun)) break;
      co_return co_await do_stop();
    case Order::Kind::checkpoint:
      co_return co_await do_checkpoint(order->snapshot);
    case Order::Kind::keep:
      if (serves(record_.state)) {
        SPACE_CO_CHECK(co_await do_pause(true));
        record_.wanted = Wanted::running;  // written with the checkpoint
      }
      co_return co_await go_cold();
  }
  co_return fail(Code::conflict, "sandbox {} is {}", record_.id, to_string(record_.state));
}

Task<Result<void>> Sandbox::do_pause(bool idle) {
  const Monotonic begun = system_clock().monotonic();
  (void)change(Change::pause_begun, {}, Write::later);
  quiesced_ = co_await machine_->quiesce(true);
  auto paused = co_await machine_->stop_vcpus(Deadline::after(qmp_limit));
  crash_point("pause-stopped");
  if (paused && !being_deleted()) {
    const SandboxRecord before = record_;
    record_.idle = idle;
    record_.wanted = Wanted::paused;
    paused = change(Change::pause_done, {});
    if (!paused) record_ = before;
  }
  if (paused) {
    if (!idle) meter_->cut_streams();
    paused_at_ = system_clock().monotonic();
    note(LogLevel::info, idle ? "sandbox paused: nothing happened" : "sandbox paused",
         {{"ms", std::to_string(since(begun))}});
    node_.events.publish(record_.id, record_.state, {}, record_.idle);
    co_return Result<void>();
  }
  (void)co_await machine_->cont_vcpus(Deadline::after(qmp_limit));
  co_await machine_->thaw();
  (void)change(Change::pause_failed, {}, Write::later);
  co_return fail(Code::unavailable, "sandbox {} was not paused: {}", record_.id, paused.error().message);
}

Task<Result<void>> Sandbox::do_resume(GuestInit init) {
  const Monotonic begun = system_clock().monotonic();
  const bool hot = record_.memory == MemoryPlace::vmm;
  const std::string_view from = memory_word();
  (void)change(Change::resume_begun, {}, Write::later);
  auto resumed = hot ? co_await resume_hot() : co_await resume_cold(std::move(init));
  if (!resumed) {
    note(LogLevel::error, "sandbox did not resume", {{"reason", resumed.error().message}});
    if (!machine_->dead() || !hot) (void)change(Change::resume_failed, {}, Write::later);
    co_return fail(resumed.error().code, "sandbox {} did not resume: {}", record_.id,
                   resumed.error().message);
  }
  meter_->note_resumed();
  note(LogLevel::info, "sandbox resumed",
       {{"from", std::string(from)}, {"ms", std::to_string(since(begun))}});
  log::info("sandbox resumed", {{"sandbox", record_.id}, {"from", from}, {"ms", since(begun)}});
  node_.events.publish(record_.id, record_.state, {}, false);
  co_return Result<void>();
}

// Until it is written down a restart would stop it again, which costs nobody anything.
Task<Result<void>> Sandbox::resume_hot() {
  auto resumed = co_await machine_->cont_vcpus(Deadline::after(qmp_limit));
  if (resumed) resumed = co_await machine_->reattach(Deadline::after(wake_limit));
  if (resumed) resumed = co_await machine_->wake({}, Deadline::after(wake_limit));
  crash_point("resume-hot-woken");
  if (resumed) {
    const SandboxRecord before = record_;
    record_.idle = false;
    record_.wanted = Wanted::running;
    resumed = change(Change::resume_done, {});
    if (!resumed) record_ = before;
  }
  if (!resumed) (void)co_await machine_->stop_vcpus(Deadline::after(qmp_limit));
  co_return resumed;
}

Task<Result<void>> Sandbox::resume_cold(GuestInit init) {
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(start_turn_limit)));
  const SnapshotId from{record_.id, record_.last_snapshot};
  make_machine();
  GuestWake wake{.generation = record_.counter + 1, .hooks = true, .thaw = false};
  if (!init.access_token.reveal().empty()) wake.init = std::move(init);
  machine_->set_wake(std::move(wake));
  const PlanOutcome outcome = co_await run_plan(plan_resume(start_spec(), from), *machine_);
  if (!outcome.started) {
    vmm_leftovers_ = !outcome.unwound;
    co_return outcome.started;
  }
  crash_point("resume-cold-woken");
  const SandboxRecord before = record_;
  record_.idle = false;
  record_.wanted = Wanted::running;
  record_.memory = MemoryPlace::vmm;
  record_.compared_with = from.number;
  record_.restored_from = from;
  record_.counter += 1;
  record_.started_at = system_clock().wall();
  if (auto written = change(Change::resume_done, {}); !written) {
    record_ = before;
    vmm_leftovers_ = true;
    co_return written;
  }
  machine_->keep();
  if (node_.host.daemon != nullptr) {
    const auto replaced = co_await node_.host.daemon->replace_older(machine_, machine_->daemon_version(),
                                                                    Deadline::after(upgrade_limit));
    if (!replaced) log::warn("daemon not replaced", {{"sandbox", record_.id}, log::Field(replaced.error())});
  }
  // User programs run only from here on: what they do is never undone by a restart.
  co_await machine_->thaw();
  co_return Result<void>();
}

Task<Result<void>> Sandbox::do_stop() {
  const Monotonic begun = system_clock().monotonic();
  const bool ran = serves(record_.state);
  const SandboxRecord before = record_;
  record_.wanted = Wanted::stopped;
  record_.idle = false;
  if (auto written = change(Change::stop_begun, {}); !written) {
    record_ = before;
    co_return written;
  }
  if (ran) {
    const auto ended = co_await machine_->shut_down(Deadline::after(shut_down_limit));
    // A guest that does not end by itself is flushed as well as it lets itself be.
    if (!ended && !being_deleted()) (void)co_await machine_->quiesce(true);
  }
  meter_->cut_streams();
  crash_point("stop-down");
  vmm_leftovers_ = true;
  while (vmm_leftovers_ && !being_deleted()) co_await drop_vmm();
  co_await drop_old_snapshots();
  note(LogLevel::info, "sandbox stopped", {{"ms", std::to_string(since(begun))}});
  node_.events.publish(record_.id, record_.state, {}, false);
  co_return Result<void>();
}

void Sandbox::stop_is_done() {
  record_.memory = MemoryPlace::none;
  record_.restored_from.reset();
  record_.compared_with = 0;
  (void)change(Change::stop_done, {});
}

Task<Result<void>> Sandbox::do_boot(GuestInit init) {
  const Monotonic begun = system_clock().monotonic();
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(start_turn_limit)));
  (void)change(Change::boot_begun, {}, Write::later);
  make_machine();
  machine_->set_guest_init(std::move(init));
  const PlanOutcome outcome = co_await run_plan(plan_boot(start_spec()), *machine_);
  Result<void> booted = outcome.started;
  if (booted) {
    const SandboxRecord before = record_;
    record_.wanted = Wanted::running;
    record_.memory = MemoryPlace::vmm;
    record_.counter += 1;
    record_.started_at = system_clock().wall();
    booted = change(Change::resume_done, {});
    if (!booted) record_ = before;
  }
  if (!booted) {
    vmm_leftovers_ = outcome.started || !outcome.unwound;
    (void)change(Change::boot_failed, {}, Write::later);
    note(LogLevel::error, "sandbox did not boot", {{"reason", booted.error().message}});
    co_return fail(booted.error().code, "sandbox {} did not boot: {}", record_.id, booted.error().message);
  }
  machine_->keep();
  meter_->note_resumed();
  if (!std::exchange(metered_, true)) meter_->keep();
  note(LogLevel::info, "sandbox booted", {{"ms", std::to_string(since(begun))}});
  log::info("sandbox booted", {{"sandbox", record_.id}, {"ms", since(begun)}});
  node_.events.publish(record_.id, record_.state, {}, false);
  co_return Result<void>();
}

// Checkpoints
// ------------------------------------------------------------------------------------------------

CheckpointSpec Sandbox::next_checkpoint() const {
  CheckpointSpec spec;
  spec.id = {record_.id, record_.last_snapshot + 1};
  spec.previous = record_.compared_with;
  spec.manifest = node_.describe(record_);
  spec.manifest.number = static_cast<std::int64_t>(spec.id.number);
  if (record_.last_snapshot != 0) spec.manifest.parent = static_cast<std::int64_t>(record_.last_snapshot);
  return spec;
}

Task<Result<void>> Sandbox::do_checkpoint(SnapshotRecord& taken) {
  if (rests(record_.state) && record_.memory == MemoryPlace::checkpoint) {
    const auto newest = std::ranges::find(snapshots_, record_.last_snapshot, &SnapshotRecord::number);
    if (newest == snapshots_.end())
      co_return fail(Code::internal, "the checkpoint of {} is gone", record_.id);
    newest->kept = true;
    taken = *newest;
    co_return node_.journal.add_snapshot(taken, nullptr);
  }
  const Deadline deadline = Deadline::after(checkpoint_limit);
  auto record =
      serves(record_.state)
          ? co_await checkpoint_running(machine_, node_.desk, next_checkpoint(), deadline)
          : co_await checkpoint_stopped(machine_, node_.desk, next_checkpoint(), quiesced_, deadline);
  if (!record) co_return std::unexpected(record.error());
  record->kept = true;
  SandboxRecord next = record_;
  next.last_snapshot = next.compared_with = record->number;
  if (auto written = node_.journal.add_snapshot(*record, &next); !written) {
    (void)co_await node_.host.noded.snapshot_remove(record_.id, record->number, Deadline::after(verb_limit));
    co_return written;
  }
  record_ = std::move(next);
  snapshots_.push_back(*record);
  taken = *std::move(record);
  note(LogLevel::info, "checkpoint taken", {{"number", std::to_string(taken.number)}});
  co_return Result<void>();
}

// Its memory goes to the pool, and its VMM away. Whatever fails before the journal says so, it stays hot.
Task<Result<void>> Sandbox::go_cold() {
  const Monotonic begun = system_clock().monotonic();
  auto taken = co_await checkpoint_stopped(machine_, node_.desk, next_checkpoint(), quiesced_,
                                           Deadline::after(checkpoint_limit));
  if (!taken) co_return std::unexpected(taken.error());
  SandboxRecord next = record_;
  next.memory = MemoryPlace::checkpoint;
  next.last_snapshot = taken->number;
  crash_point("cold-taken");
  if (auto written = node_.journal.add_snapshot(*taken, &next); !written) {
    (void)co_await node_.host.noded.snapshot_remove(record_.id, taken->number, Deadline::after(verb_limit));
    co_return written;
  }
  record_ = std::move(next);
  snapshots_.push_back(*taken);
  crash_point("cold-written");
  co_await drop_vmm();
  co_await drop_old_snapshots();
  note(LogLevel::info, "memory moved to the pool",
       {{"ms", std::to_string(since(begun))}, {"written_bytes", std::to_string(taken->written_bytes)}});
  co_return Result<void>();
}

Task<void> Sandbox::drop_vmm() {
  const auto dropped = co_await unwind(undo_vmm(), *machine_);
  vmm_leftovers_ = !dropped;
  if (dropped) {
    make_machine();
    // A stop that a restart of this daemon interrupted is over with its VMM.
    if (is_stop(record_.state, record_.wanted)) stop_is_done();
    co_return;
  }
  log::warn("what is left of a VMM is not removed, will be repeated",
            {{"sandbox", record_.id}, log::Field(dropped.error())});
  co_await wait_before_retry();
}

// Those that served a pause before the last one, or any when its memory is no longer wanted.
Task<void> Sandbox::drop_old_snapshots() {
  const auto needed = [this](const SnapshotRecord& snapshot) {
    return snapshot.kept ||
           (record_.memory == MemoryPlace::checkpoint && snapshot.number == record_.last_snapshot);
  };
  for (std::size_t i = 0; i < snapshots_.size();) {
    if (needed(snapshots_[i])) {
      ++i;
      continue;
    }
    const SnapshotId old{record_.id, snapshots_[i].number};
    auto removed =
        co_await node_.host.noded.snapshot_remove(old.sandbox, old.number, Deadline::after(verb_limit));
    if (removed) removed = node_.journal.erase_snapshot(old);
    if (!removed) {  // the next one to go takes it along
      log::warn("old snapshot not removed", {{"sandbox", old.sandbox}, log::Field(removed.error())});
      co_return;
    }
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// By itself
// --------------------------------------------------------------------------------------------------

// What a checkpoint that was interrupted by the end of an earlier daemon may have left.
Task<void> Sandbox::drop_unfinished() {
  const auto removed = co_await node_.host.noded.snapshot_remove(record_.id, record_.last_snapshot + 1,
                                                                 Deadline::after(verb_limit));
  maybe_unfinished_ = !removed;
}

// After a restart of this daemon: the VM is brought to what was written down of it.
Task<void> Sandbox::settle_adopted() {
  if (is_stop(record_.state, record_.wanted)) {
    record_.state = State::running;  // as it was; the stop is done again
    order_ = std::make_shared<Order>(Order{.kind = Order::Kind::stop});
    co_return;
  }
  const Deadline deadline = Deadline::after(qmp_limit);
  if (rests(record_.state)) {
    paused_at_ = system_clock().monotonic();
    quiesced_ = true;  // it was frozen before it was stopped, or would be marked when it is captured
    if (const auto still = co_await machine_->stop_vcpus(deadline); !still)
      log::warn("paused VM not stopped", {{"sandbox", record_.id}, log::Field(still.error())});
    co_return;
  }
  const auto runs = co_await machine_->ensure_running(deadline);
  if (!runs) log::warn("adopted VM does not run", {{"sandbox", record_.id}, log::Field(runs.error())});
  spawn(node_.host.executor, "thaw", thaw_adopted());
}

Task<void> Sandbox::thaw_adopted() {
  const auto self = shared_from_this();
  const auto machine = machine_;
  while (!machine->dead() && machine == machine_ && !machine->channel()->session()) co_await changed_.wait();
  if (!machine->dead() && machine == machine_ && serves(record_.state)) co_await machine->thaw();
}

bool Sandbox::idle_due() const {
  return serves(record_.state) && record_.policy.idle_pause_s &&
         meter_->idle_for() >= std::chrono::seconds(*record_.policy.idle_pause_s);
}

bool Sandbox::cold_due() const {
  const Millis keep = std::chrono::seconds(record_.policy.hot_keep_s.value_or(node_.hot_keep_s));
  return rests(record_.state) && record_.memory == MemoryPlace::vmm &&
         system_clock().monotonic() - paused_at_ >= keep;
}

bool Sandbox::wake_due() const {
  if (!rests(record_.state) || !record_.idle || record_.memory == MemoryPlace::none || closing_) return false;
  if (record_.wanted == Wanted::running) return true;  // kept for this restart
  return record_.wake_at && *record_.wake_at <= system_clock().wall();
}

std::optional<Monotonic> Sandbox::next_due() const {
  const Monotonic now = system_clock().monotonic();
  std::optional<Monotonic> due;
  if (closing_) return due;  // what was kept for the next start stays so
  const auto at = [&](Monotonic moment) {
    moment = std::max(moment, retry_at_);
    if (!due || moment < *due) due = moment;
  };
  if (serves(record_.state) && record_.policy.idle_pause_s)
    at(now + std::max(Millis(0),
                      std::chrono::duration_cast<Millis>(std::chrono::seconds(*record_.policy.idle_pause_s)) -
                          meter_->idle_for()));
  if (rests(record_.state) && record_.memory == MemoryPlace::vmm)
    at(paused_at_ + std::chrono::seconds(record_.policy.hot_keep_s.value_or(node_.hot_keep_s)));
  if (rests(record_.state) && record_.idle && record_.wanted == Wanted::running) at(now);
  if (rests(record_.state) && record_.idle && record_.wake_at)
    at(now +
       std::max(Millis(0), std::chrono::duration_cast<Millis>(*record_.wake_at - system_clock().wall())));
  return due;
}

// Work that shows in its CPU only is seen between two samples: the first begins the wait, the second ends it.
// A guest that does not answer them is no idle one.
Task<Result<void>> Sandbox::pause_if_idle() {
  const Monotonic now = system_clock().monotonic();
  const bool looked =
      idle_look_at_ && *idle_look_at_ > now - 2 * idle_look && *idle_look_at_ <= now - idle_look;
  const bool sampled = co_await meter_->sample_now(Deadline::after(sample_limit));
  if (!sampled || !looked) {
    if (!looked) idle_look_at_ = system_clock().monotonic();
    retry_at_ = system_clock().monotonic() + idle_look;
    co_return Result<void>();
  }
  idle_look_at_.reset();
  if (!idle_due() || order_ || being_deleted()) co_return Result<void>();
  co_return co_await do_pause(true);
}

Task<void> Sandbox::do_due() {
  const auto due = next_due();
  if (!due) {
    co_await changed_.wait();
    co_return;
  }
  if (system_clock().monotonic() < *due) {
    co_await changed_.wait(Deadline::at(*due));
    co_return;
  }
  Result<void> done;
  if (wake_due()) {
    done = co_await do_resume({});
  } else if (cold_due()) {
    done = co_await go_cold();
  } else if (idle_due()) {
    done = co_await pause_if_idle();
  }
  if (!done) {
    retry_at_ = system_clock().monotonic() + retry_after;
    log::warn("what was due failed", {{"sandbox", record_.id}, log::Field(done.error())});
  }
}

}  // namespace space
