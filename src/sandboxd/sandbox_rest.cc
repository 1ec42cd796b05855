// The half of Sandbox that lets it stand still and go on: pause, resume, stop.
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
constexpr Millis upgrade_limit = 60s;
constexpr Millis verb_limit = 10s;

long long since(Monotonic start) {
  return std::chrono::duration_cast<Millis>(system_clock().monotonic() - start).count();
}

}  // namespace

// What is asked of it
// ----------------------------------------------------------------------------------------

Task<Result<void>> Sandbox::settled(Deadline deadline, Until until) {
  while (true) {
    if (being_deleted()) co_return fail(Code::not_found, "sandbox {} does not exist", record_.id);
    const bool may_be_told = until == Until::settled_or_awaits_init && awaits_init_;
    if (!order_ && (!in_transition(record_.state) || may_be_told)) co_return Result<void>();
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
  SPACE_CO_CHECK(co_await settled(deadline, Until::settled_or_awaits_init));
  if (serves(record_.state)) co_return Result<void>();
  if (!rests(record_.state) && !awaits_init_)
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

Task<Result<void>> Sandbox::keep_for_restart(Deadline deadline) {
  const auto self = shared_from_this();
  closing_ = true;
  if (recovers(record_.state) && pid() == 0) co_return Result<void>();  // so does the next start
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
      if (awaits_init_) co_return co_await boot_recovered(std::move(order->init));
      if (!rests(record_.state)) break;
      if (record_.memory == MemoryPlace::none) co_return co_await do_boot(std::move(order->init));
      co_return co_await do_resume(std::move(order->init));
    case Order::Kind::boot:
      if (awaits_init_) co_return co_await boot_recovered(std::move(order->init));
      if (!rests(record_.state)) break;
      if (record_.memory != MemoryPlace::none) SPACE_CO_CHECK(co_await do_stop());
      co_return co_await do_boot(std::move(order->init));
    case Order::Kind::stop:
      if (!after(record_.state, Change::stop_begun)) break;
      co_return co_await do_stop();
    case Order::Kind::snapshot:
      co_return co_await do_snapshot(order);
    case Order::Kind::remove_snapshot:
      co_return co_await do_remove_snapshot(order->number.value_or(0));
    case Order::Kind::rollback:
      co_return co_await do_rollback(order);
    case Order::Kind::keep:
      if (serves(record_.state)) {
        SPACE_CO_CHECK(co_await do_pause(true));
        want(Wanted::running);  // written with the checkpoint
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
    want(Wanted::paused);
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
    want(Wanted::running);
    resumed = change(Change::resume_done, {});
    if (!resumed) record_ = before;
  }
  if (!resumed) (void)co_await machine_->stop_vcpus(Deadline::after(qmp_limit));
  co_return resumed;
}

// A VM of its own, from a snapshot of its own. Nothing is written down of it.
Task<Result<void>> Sandbox::restore_vm(SnapshotId from, GuestInit init) {
  // From here on a deletion interrupts the machine.
  if (being_deleted()) co_return fail(Code::not_found, "sandbox {} was deleted", record_.id);
  make_machine();
  GuestWake wake{.generation = record_.counter + 1, .hooks = true, .thaw = false};
  if (!init.access_token.reveal().empty()) wake.init = std::move(init);
  machine_->set_wake(std::move(wake));
  const SnapshotRecord* snapshot = own_snapshot(from.number);
  const bool between_frames = snapshot != nullptr && snapshot->quiesced;
  const EarlierHost host = between_frames ? EarlierHost::copied : EarlierHost::cut;
  const PlanOutcome outcome = co_await run_plan(plan_resume(start_spec(), from, host), *machine_);
  if (!outcome.started) vmm_leftovers_ = !outcome.unwound;
  co_return outcome.started;
}

// Written down, it goes on for good.
Task<void> Sandbox::after_restore() {
  machine_->keep();
  meter_->note_resumed();
  if (!std::exchange(metered_, true)) meter_->keep();
  if (node_.host.daemon != nullptr) {
    const auto replaced = co_await node_.host.daemon->replace_older(machine_, machine_->daemon_version(),
                                                                    Deadline::after(upgrade_limit));
    if (!replaced) log::warn("daemon not replaced", {{"sandbox", record_.id}, log::Field(replaced.error())});
  }
  // User programs run only from here on: what they do is never undone by a restart.
  co_await machine_->thaw();
}

Task<Result<void>> Sandbox::resume_cold(GuestInit init) {
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(start_turn_limit)));
  const SnapshotId from{record_.id, record_.head};
  SPACE_CO_CHECK(co_await restore_vm(from, std::move(init)));
  crash_point("resume-cold-woken");
  const SandboxRecord before = record_;
  record_.idle = false;
  want(Wanted::running);
  record_.memory = MemoryPlace::vmm;
  record_.disk_from_head = false;
  record_.compared_with = from.number;
  record_.restored_from = from;
  record_.counter += 1;
  record_.started_at = system_clock().wall();
  if (auto written = change(Change::resume_done, {}); !written) {
    record_ = before;
    vmm_leftovers_ = true;
    co_return written;
  }
  co_await after_restore();
  co_return Result<void>();
}

Task<Result<void>> Sandbox::do_stop() {
  const Monotonic begun = system_clock().monotonic();
  const bool ran = serves(record_.state);
  const SandboxRecord before = record_;
  want(Wanted::stopped);
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

// A VM of its own, from its disk. Nothing is written down of it.
Task<Result<void>> Sandbox::boot_vm(GuestInit init) {
  if (being_deleted()) co_return fail(Code::not_found, "sandbox {} was deleted", record_.id);
  make_machine();
  machine_->set_guest_init(std::move(init));
  StartPlan plan = plan_boot(start_spec());
  if (record_.disk_from_head)
    plan.insert(plan.begin(), {effect::RestoreDisk{record_.id, record_.head}, Undo::none, verb_limit});
  const PlanOutcome outcome = co_await run_plan(std::move(plan), *machine_);
  if (!outcome.started) vmm_leftovers_ = !outcome.unwound;
  // Its programs see that they are later ones, as after a restore; a boot alone would begin at one again.
  if (outcome.started)
    (void)co_await machine_->wake({.generation = record_.counter + 1, .reseed = false, .thaw = false},
                                  Deadline::after(verb_limit));
  // Nothing of it is written down yet, so nothing has to be taken back.
  if (outcome.started && being_deleted()) {
    vmm_leftovers_ = true;
    co_return fail(Code::not_found, "sandbox {} was deleted", record_.id);
  }
  co_return outcome.started;
}

Task<Result<void>> Sandbox::do_boot(GuestInit init) {
  const Monotonic begun = system_clock().monotonic();
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(start_turn_limit)));
  (void)change(Change::boot_begun, {}, Write::later);
  Result<void> booted = co_await boot_vm(std::move(init));
  if (booted) {
    const SandboxRecord before = record_;
    want(Wanted::running);
    record_.memory = MemoryPlace::vmm;
    record_.disk_from_head = false;
    record_.counter += 1;
    record_.started_at = system_clock().wall();
    booted = change(Change::resume_done, {});
    if (!booted) {
      record_ = before;
      vmm_leftovers_ = true;
    }
  }
  if (!booted) {
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

// Its memory goes to the pool, and its VMM away. Whatever fails before the journal says so, it stays hot.
Task<Result<void>> Sandbox::go_cold() {
  const Monotonic begun = system_clock().monotonic();
  auto taken =
      co_await checkpoint_stopped(machine_, node_.desk, next_checkpoint({.cause = SnapshotCause::pause}),
                                  quiesced_, Deadline::after(checkpoint_limit));
  if (!taken) co_return std::unexpected(taken.error());
  SandboxRecord next = record_;
  next.memory = MemoryPlace::checkpoint;
  crash_point("cold-taken");
  SPACE_CO_CHECK(co_await keep_snapshot(*taken, std::move(next)));
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

// Found by a new daemon
// --------------------------------------------------------------------------------------

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
  if (machine->dead() || machine != machine_ || !serves(record_.state)) co_return;
  co_await machine->thaw();
  (void)co_await machine->thaw_disk();
}

}  // namespace space
