#include "sandboxd/sandbox.h"

#include <cstdlib>

#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Between two attempts to remove what could not be removed.
constexpr Millis retry_pause = 1s;
constexpr Millis bind_limit = 15s;
// Clients give up after a minute.
constexpr Millis start_turn_limit = 50s;
constexpr Millis console_limit = 2s;
constexpr Millis console_pause = 1s;

Task<void> nothing() {
  co_return;
}

std::int64_t micros_since(Monotonic start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock().monotonic() - start).count();
}

long long since(Monotonic start) {
  return std::chrono::duration_cast<Millis>(system_clock().monotonic() - start).count();
}

// The children of a fork come all at once.
std::string request_of(const SandboxRecord& record) {
  return record.origin ? fmt::format("{}/{}", record.origin->sandbox, record.origin->number) : std::string();
}

}  // namespace

std::shared_ptr<Sandbox> Sandbox::make(Node node, SandboxRecord record) {
  std::shared_ptr<Sandbox> sandbox(new Sandbox(std::move(node), std::move(record)));
  sandbox->make_machine();
  sandbox->meter_ = std::make_shared<SandboxMeter>(sandbox->node_.host.executor, sandbox->meter_hooks(),
                                                   sandbox->node_.pace, sandbox->record_.wake_at);
  sandbox->log_ = sandbox->node_.logs.open(sandbox->record_.id);
  return sandbox;
}

ChannelLink::Hooks Sandbox::channel_hooks() {
  ChannelLink::Hooks hooks;
  hooks.next_epoch = [&journal = node_.journal, id = record_.id] { return journal.next_epoch(id); };
  hooks.changed = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_machine_changed();
  };
  return hooks;
}

// A machine has one VMM in its life.
void Sandbox::make_machine() {
  machine_ = std::make_shared<Machine>(node_.host, record_.id, channel_hooks());
  machine_->set_egress(egress());
}

Sandbox::Sandbox(Node node, SandboxRecord record)
    : node_(std::move(node)), record_(std::move(record)), changed_(node_.host.executor) {}

SandboxMeter::Hooks Sandbox::meter_hooks() {
  const std::weak_ptr<Sandbox> weak = weak_from_this();
  SandboxMeter::Hooks hooks;
  // The machine is another one after a rest.
  hooks.ask = [weak](std::string call, Deadline deadline) -> Task<Result<JsonObject>> {
    const auto self = weak.lock();
    if (!self) co_return fail(Code::unavailable, "the sandbox is gone");
    co_return co_await self->machine_->channel()->control(std::move(call), {}, deadline);
  };
  hooks.answers = [weak] {
    const auto self = weak.lock();
    return self && !self->machine_->stands_still() && self->machine_->channel()->session() != nullptr &&
           self->machine_->channel()->responsive();
  };
  hooks.vmm_pid = [weak] {
    const auto self = weak.lock();
    return self ? self->machine_->pid() : 0;
  };
  hooks.tick = [weak] {
    if (const auto self = weak.lock()) spawn(self->node_.host.executor, "console", self->read_console());
  };
  hooks.wake_at_changed = [weak](std::optional<Wall> wake_at) {
    const auto self = weak.lock();
    if (!self) return;
    self->record_.wake_at = wake_at;
    self->changed_.notify_all();
    if (const auto written = self->node_.journal.set_wake_at(self->record_.id, wake_at); !written)
      log::error("journal write failed", {{"sandbox", self->record_.id}, log::Field(written.error())});
  };
  return hooks;
}

void Sandbox::note(LogLevel level, std::string message,
                   std::vector<std::pair<std::string, std::string>> fields) {
  log_->append(LogSource::node, level, std::move(message), std::move(fields));
}

void Sandbox::start(GuestInit init, std::optional<StartSource> from) {
  begin(do_start(std::move(init), std::move(from)));
}
void Sandbox::bind(std::shared_ptr<Machine> machine, GuestInit init) {
  machine_ = std::move(machine);
  machine_->rehook(channel_hooks());
  machine_->set_egress(egress());
  begin(do_bind(std::move(init)));
}
void Sandbox::adopt() {
  begin(do_adopt());
}
void Sandbox::mark_failed(std::string cause) {
  begin(do_mark_failed(std::move(cause)));
}
void Sandbox::remove_leftovers() {
  leftovers_ = true;
  begin(nothing());
}
void Sandbox::finish_deletion() {
  record_.wanted = Wanted::deleted;
  begin(nothing());
}
void Sandbox::release_vmm() {
  vmm_leftovers_ = true;
  begin(nothing());
}
void Sandbox::rest() {
  begin(nothing());
}

void Sandbox::begin(Task<void> beginning) {
  spawn(node_.host.executor, "sandbox", live(std::move(beginning)));
}

Task<void> Sandbox::live(Task<void> beginning) {
  const auto self = shared_from_this();
  co_await std::move(beginning);
  if (maybe_unfinished_) co_await drop_unfinished();
  while (!being_deleted()) {
    if (expects_vmm(record_.state, record_.memory) && machine_->dead())
      co_await bury();
    else if (leftovers_)
      co_await clear_leftovers();
    else if (vmm_leftovers_)
      co_await drop_vmm();
    else if (order_)
      co_await carry_out();
    else
      co_await do_due();
  }
  co_await do_delete();
}

Task<void> Sandbox::do_start(GuestInit init, std::optional<StartSource> from) {
  const Monotonic begun = system_clock().monotonic();
  note(LogLevel::info, "sandbox created",
       {{"template", record_.template_digest},
        {"vcpus", std::to_string(record_.shape.vcpus)},
        {"memory_mib", std::to_string(record_.shape.memory_mib)},
        {"disk_mib", std::to_string(record_.shape.disk_mib)}});
  // What somebody's programs do is never undone by a restart: they run once it is written down.
  const bool others_memory = record_.origin && from && from->kind == SnapshotKind::full;
  if (from)
    machine_->set_wake({.identity = record_.id,
                        .init = std::move(init),
                        .generation = record_.counter,
                        .hooks = true,
                        .thaw = !others_memory});
  else
    machine_->set_guest_init(std::move(init));
  const StartSpec spec = start_spec();
  const auto turn = co_await node_.starts.enter(Deadline::after(start_turn_limit), request_of(record_));
  PlanOutcome outcome;
  if (turn)
    outcome = co_await run_plan(from ? plan_start_from(spec, *from) : plan_cold_start(spec), *machine_);
  else
    outcome.started = fail(Code::exhausted, "too many sandboxes are being started: {}", turn.error().message);
  if (outcome.started) {
    record_.started_at = system_clock().wall();
    outcome.started = change(Change::start_done, {});
    // Running, but not written down: a restart would take it for a start that never ended.
    if (!outcome.started) leftovers_ = true;
  } else {
    leftovers_ = leftovers_ || !outcome.unwound;
  }
  if (outcome.started && others_memory) co_await after_restore();
  tell_start(std::move(outcome.started), begun);
}

// One commit, at the end: until then it is a VM that nobody has been promised, and a restart removes it.
Task<void> Sandbox::do_bind(GuestInit init) {
  const Monotonic begun = system_clock().monotonic();
  machine_->open_gateway();  // its own policy, in place of none
  Result<void> bound = co_await machine_->cont_vcpus(Deadline::after(bind_limit));
  const std::int64_t continued_us = micros_since(begun);
  GuestWake wake{.init = std::move(init)};
  if (record_.origin) {
    wake.generation = record_.counter;
    wake.hooks = true;
    wake.thaw = false;
  }
  if (bound) bound = co_await machine_->await_gateway(Deadline::after(bind_limit));
  if (bound) bound = co_await machine_->wake(std::move(wake), Deadline::after(bind_limit));
  const std::int64_t woken_us = micros_since(begun);
  if (bound) {
    SandboxRecord running = record_;
    running.state = after(record_.state, Change::start_done).value_or(record_.state);
    running.started_at = system_clock().wall();
    bound = node_.journal.insert(running);
    if (bound) record_ = std::move(running);
  } else {
    (void)node_.journal.insert(record_);  // so that its failure has a record
  }
  if (!bound) leftovers_ = true;
  if (bound && record_.origin) co_await after_restore();
  log::debug("sandbox bound", {{"sandbox", record_.id},
                               {"continued_us", continued_us},
                               {"woken_us", woken_us},
                               {"written_us", micros_since(begun)}});
  tell_start(std::move(bound), begun);
}

void Sandbox::tell_start(Result<void> outcome, Monotonic begun) {
  if (outcome) {
    machine_->keep();
    meter_->keep();
    metered_ = true;
    note(LogLevel::info, "sandbox started", {{"ms", std::to_string(since(begun))}});
    log::info("sandbox started", {{"sandbox", record_.id}, {"ms", since(begun)}, {"pid", machine_->pid()}});
  } else {
    record_.started_at.reset();
    (void)change(Change::start_failed, outcome.error().message);
    note(LogLevel::error, "sandbox did not start", {{"reason", outcome.error().message}});
    log::warn("sandbox start failed",
              {{"sandbox", record_.id}, {"ms", since(begun)}, log::Field(outcome.error())});
  }
  start_outcome_ = std::move(outcome);
  changed_.notify_all();
}

Task<void> Sandbox::do_adopt() {
  start_outcome_ = Result<void>();
  while (!being_deleted()) {
    const auto adopted = co_await machine_->adopt();
    if (adopted) {
      meter_->keep();
      metered_ = true;
      co_await settle_adopted();
      note(LogLevel::info, "sandbox found running by a new node daemon");
      log::info("sandbox adopted",
                {{"sandbox", record_.id}, {"pid", machine_->pid()}, {"state", to_string(record_.state)}});
      break;
    }
    if (adopted.error().code == Code::not_found) {
      co_await bury();
      break;
    }
    log::warn("sandbox adoption failed", {{"sandbox", record_.id}, log::Field(adopted.error())});
    co_await wait_before_retry();
  }
}

Task<void> Sandbox::do_mark_failed(std::string cause) {
  if (expects_vmm(record_.state, record_.memory))
    if (const auto exit = co_await node_.host.noded.vmm_exit(record_.id, Deadline::after(retry_pause)))
      cause = describe(*exit);
  start_outcome_ = fail(Code::unavailable, "{}", cause);
  leftovers_ = true;
  note(LogLevel::error, "sandbox died", {{"reason", cause}});
  (void)change(Change::vmm_died, std::move(cause));
}

Task<void> Sandbox::bury() {
  std::string cause = co_await machine_->cause_of_death();
  if (record_.recovery != RecoveryPolicy::none) {
    begin_recovery(std::move(cause));
    co_return;
  }
  meter_->close();
  note(LogLevel::error, "sandbox died", {{"reason", cause}});
  leftovers_ = true;
  // A journal that cannot be written does not bring the VMM back; the next start finds out again.
  (void)change(Change::vmm_died, cause);
  log::warn("sandbox died", {{"sandbox", record_.id}, {"cause", cause}});
  node_.events.publish(record_.id, record_.state, std::move(cause));
}

Task<void> Sandbox::clear_leftovers() {
  const auto cleared = co_await unwind(undo_everything(), *machine_);
  leftovers_ = !cleared;
  if (cleared) co_return;
  log::warn("sandbox clean-up failed, will be repeated",
            {{"sandbox", record_.id}, log::Field(cleared.error())});
  co_await wait_before_retry();
}

Task<void> Sandbox::do_delete() {
  const Monotonic begun = system_clock().monotonic();
  meter_->close();
  if (order_ && !order_->outcome)
    order_->outcome = fail(Code::not_found, "sandbox {} was deleted", record_.id);
  while (true) {
    auto removed = co_await unwind(undo_everything(), *machine_);
    if (removed) removed = co_await remove_snapshots();
    if (removed) removed = forget_record();
    if (removed) break;
    log::warn("sandbox deletion failed, will be repeated",
              {{"sandbox", record_.id}, log::Field(removed.error())});
    co_await wait_before_retry();
  }
  record_.state = after(record_.state, Change::deletion_done).value_or(record_.state);
  log::info("sandbox deleted", {{"sandbox", record_.id}, {"ms", since(begun)}});
  note(LogLevel::info, "sandbox deleted");
  node_.logs.end(record_.id);
  node_.forget(record_.id);
  changed_.notify_all();
}

Task<void> Sandbox::wait_before_retry() {
  co_await changed_.wait(Deadline::after(retry_pause));
}

// But for those that others need.
Task<Result<void>> Sandbox::remove_snapshots() {
  if (maybe_unfinished_) co_await drop_unfinished();
  std::erase_if(snapshots_, [this](const SnapshotRecord& snapshot) {
    if (node_.is_needed(snapshot.id())) return false;
    doomed_.insert(snapshot.number);
    return true;
  });
  co_await remove_doomed();
  if (!doomed_.empty()) co_return fail(Code::unavailable, "{} snapshots are still there", doomed_.size());
  co_return Result<void>();
}

Result<void> Sandbox::forget_record() {
  std::set<std::uint64_t> kept;
  for (const SnapshotRecord& snapshot : snapshots_) kept.insert(snapshot.number);
  SPACE_CHECK(node_.journal.erase(record_.id, kept));
  for (SnapshotRecord& snapshot : snapshots_) node_.leave_behind(std::move(snapshot));
  snapshots_.clear();
  return {};
}

Result<void> Sandbox::change(Change change, std::string reason, Write write) {
  const auto next = after(record_.state, change);
  if (!next) std::abort();  // this actor asked for what the table does not know
  SandboxRecord changed = record_;
  changed.state = *next;
  changed.reason = std::move(reason);
  const auto written = write == Write::later ? Result<void>() : node_.journal.update(changed);
  if (!written) log::error("journal write failed", {{"sandbox", record_.id}, log::Field(written.error())});
  // These must be on disk before they are true. Everything else is true already.
  const bool is_promise = change == Change::start_done || change == Change::pause_done ||
                          change == Change::resume_done || change == Change::stop_begun;
  if (!written && is_promise) return written;
  record_ = std::move(changed);
  changed_.notify_all();
  return {};
}

void Sandbox::on_machine_changed() {
  const bool responsive = machine_->channel()->responsive();
  const bool out_of_disk = machine_->out_of_disk();
  const bool stalled = std::exchange(was_out_of_disk_, out_of_disk) != out_of_disk;
  if ((std::exchange(was_responsive_, responsive) != responsive || stalled) && serves(record_.state) &&
      !machine_->dead()) {
    log::info("sandbox changed", {{"sandbox", record_.id}, {"reason", reason()}});
    node_.events.publish(record_.id, record_.state, reason());
    if (reason().empty()) {
      note(LogLevel::info, "sandbox answers again");
    } else {
      note(LogLevel::warn, "sandbox stands still", {{"reason", reason()}});
      spawn(node_.host.executor, "console", read_console());  // why, if it says so there
    }
  }
  changed_.notify_all();
}

std::string Sandbox::reason() const {
  if (serves(record_.state) && was_out_of_disk_)
    return "it waits for room on the node's disk pool, which is full: kill sandboxes";
  if (serves(record_.state) && !was_responsive_) return "the guest does not answer";
  return record_.reason;
}

Task<Result<void>> Sandbox::started() {
  const auto self = shared_from_this();
  while (!start_outcome_) co_await changed_.wait();
  if (!*start_outcome_) co_return *start_outcome_;
  if (!serves(record_.state)) co_return fail(Code::unavailable, "{}", record_.reason);
  co_return Result<void>();
}

Task<Result<void>> Sandbox::remove(Deadline deadline) {
  const auto self = shared_from_this();
  if (!being_deleted()) {
    record_.wanted = Wanted::deleted;
    // Deletion also works with a full disk: a crash before its end then leaves the sandbox for the next
    // request.
    if (const auto written = node_.journal.update(record_); !written)
      log::error("journal write failed", {{"sandbox", record_.id}, log::Field(written.error())});
    machine_->interrupt({Code::conflict, "the sandbox was deleted"});
    changed_.notify_all();
  }
  while (!is_end(record_.state))
    if (!co_await changed_.wait(deadline))
      co_return fail(Code::deadline, "the deletion of {} goes on", record_.id);
  co_return Result<void>();
}

Task<Result<std::shared_ptr<H2Session>>> Sandbox::session(Deadline deadline) {
  const auto self = shared_from_this();
  while (true) {
    if (being_deleted()) co_return fail(Code::not_found, "sandbox {} does not exist", record_.id);
    if (rests(record_.state) && record_.idle) touch();
    const bool in_between = in_transition(record_.state) || (rests(record_.state) && record_.idle);
    if (!in_between && !serves(record_.state))
      co_return fail(Code::unavailable, "sandbox {} is {}{}", record_.id, to_string(record_.state),
                     record_.reason.empty() ? "" : ": " + record_.reason);
    if (auto session = machine_->channel()->session(); session && !in_between) co_return session;
    if (co_await changed_.wait(deadline)) continue;
    if (in_between) co_return fail(Code::conflict, "sandbox {} is {}", record_.id, to_string(record_.state));
    co_return fail(Code::unavailable, "sandbox {}: {}", record_.id,
                   was_out_of_disk_ ? reason() : "the guest does not answer");
  }
}

Task<void> Sandbox::read_console() {
  const auto self = shared_from_this();
  const bool just_read = console_read_at_ && system_clock().monotonic() - *console_read_at_ < console_pause;
  if (just_read || std::exchange(reading_console_, true)) co_return;
  const auto text = co_await machine_->console_text(Deadline::after(console_limit));
  reading_console_ = false;
  console_read_at_ = system_clock().monotonic();
  if (!text) co_return;
  const ConsoleText::Lines read = console_.feed(*text);
  if (read.dropped > 0)
    note(LogLevel::warn, "console lines dropped", {{"count", std::to_string(read.dropped)}});
  for (const std::string& line : read.lines)
    log_->append(LogSource::console, LogLevel::info, line, {{"source", "console"}});
}

}  // namespace space
