#include "sandboxd/sandbox.h"

#include <cstdlib>

#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Between two attempts to remove what could not be removed.
constexpr Millis retry_pause = 1s;
constexpr Millis console_limit = 2s;
constexpr Millis console_pause = 1s;

Task<void> nothing() {
  co_return;
}

long long since(Monotonic start) {
  return std::chrono::duration_cast<Millis>(system_clock().monotonic() - start).count();
}

}  // namespace

std::shared_ptr<Sandbox> Sandbox::make(Node node, SandboxRecord record) {
  std::shared_ptr<Sandbox> sandbox(new Sandbox(std::move(node), std::move(record)));
  const std::weak_ptr<Sandbox> weak = sandbox;
  ChannelLink::Hooks hooks;
  hooks.next_epoch = [&journal = sandbox->node_.journal, id = sandbox->record_.id] {
    return journal.next_epoch(id);
  };
  hooks.changed = [weak] {
    if (const auto self = weak.lock()) self->on_machine_changed();
  };
  sandbox->machine_ = std::make_shared<Machine>(sandbox->node_.host, sandbox->record_.id, std::move(hooks));
  sandbox->meter_ = std::make_shared<SandboxMeter>(sandbox->node_.host.executor, sandbox->meter_hooks(),
                                                   sandbox->node_.pace, sandbox->record_.wake_at);
  sandbox->log_ = sandbox->node_.logs.open(sandbox->record_.id);
  return sandbox;
}

Sandbox::Sandbox(Node node, SandboxRecord record)
    : node_(std::move(node)), record_(std::move(record)), changed_(node_.host.executor) {}

SandboxMeter::Hooks Sandbox::meter_hooks() {
  const std::weak_ptr<Sandbox> weak = weak_from_this();
  SandboxMeter::Hooks hooks;
  hooks.ask = [machine = machine_](std::string call, Deadline deadline) {
    return machine->channel()->control(std::move(call), {}, deadline);
  };
  hooks.answers = [machine = machine_] {
    return machine->channel()->session() != nullptr && machine->channel()->responsive();
  };
  hooks.vmm_pid = [machine = machine_] { return machine->pid(); };
  hooks.tick = [weak] {
    if (const auto self = weak.lock()) spawn(self->node_.host.executor, "console", self->read_console());
  };
  hooks.wake_at_changed = [weak](std::optional<Wall> wake_at) {
    const auto self = weak.lock();
    if (!self) return;
    self->record_.wake_at = wake_at;
    if (const auto written = self->node_.journal.set_wake_at(self->record_.id, wake_at); !written)
      log::error("journal write failed", {{"sandbox", self->record_.id}, log::Field(written.error())});
  };
  return hooks;
}

void Sandbox::note(LogLevel level, std::string message,
                   std::vector<std::pair<std::string, std::string>> fields) {
  log_->append(LogSource::node, level, std::move(message), std::move(fields));
}

void Sandbox::start(GuestInit init, MachineAccelerator accelerator) {
  begin(do_start(std::move(init), accelerator));
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
void Sandbox::rest() {
  begin(nothing());
}

void Sandbox::begin(Task<void> beginning) {
  spawn(node_.host.executor, "sandbox", live(std::move(beginning)));
}

Task<void> Sandbox::live(Task<void> beginning) {
  const auto self = shared_from_this();
  co_await std::move(beginning);
  while (!being_deleted()) {
    if (expects_vmm(record_.state) && machine_->dead())
      co_await bury();
    else if (leftovers_)
      co_await clear_leftovers();
    else
      co_await changed_.wait();
  }
  co_await do_delete();
}

Task<void> Sandbox::do_start(GuestInit init, MachineAccelerator accelerator) {
  const Monotonic begun = system_clock().monotonic();
  machine_->set_guest_init(std::move(init));
  note(LogLevel::info, "sandbox created",
       {{"template", record_.template_digest},
        {"vcpus", std::to_string(record_.shape.vcpus)},
        {"memory_mib", std::to_string(record_.shape.memory_mib)},
        {"disk_mib", std::to_string(record_.shape.disk_mib)}});
  PlanOutcome outcome =
      co_await run_plan(plan_cold_start({record_.template_digest, record_.shape, accelerator}), *machine_);
  if (outcome.started) {
    record_.started_at = system_clock().wall();
    outcome.started = change(Change::start_done, {});
    // Running, but not written down: a restart would take it for a start that never ended.
    if (!outcome.started) leftovers_ = true;
  }
  if (outcome.started) {
    machine_->keep();
    meter_->keep();
    note(LogLevel::info, "sandbox started", {{"ms", std::to_string(since(begun))}});
    log::info("sandbox started", {{"sandbox", record_.id}, {"ms", since(begun)}, {"pid", machine_->pid()}});
  } else {
    leftovers_ = leftovers_ || !outcome.unwound;
    record_.started_at.reset();
    (void)change(Change::start_failed, outcome.started.error().message);
    note(LogLevel::error, "sandbox did not start", {{"reason", outcome.started.error().message}});
    log::warn("sandbox start failed",
              {{"sandbox", record_.id}, {"ms", since(begun)}, log::Field(outcome.started.error())});
  }
  start_outcome_ = std::move(outcome.started);
  changed_.notify_all();
}

Task<void> Sandbox::do_adopt() {
  start_outcome_ = Result<void>();
  while (!being_deleted()) {
    const auto adopted = co_await machine_->adopt();
    if (adopted) {
      meter_->keep();
      note(LogLevel::info, "sandbox found running by a new node daemon");
      log::info("sandbox adopted", {{"sandbox", record_.id}, {"pid", machine_->pid()}});
      break;
    }
    if (adopted.error().code == Code::not_found) {
      co_await bury();
      break;
    }
    log::warn("sandbox adoption failed", {{"sandbox", record_.id}, log::Field(adopted.error())});
    co_await pause();
  }
}

Task<void> Sandbox::do_mark_failed(std::string cause) {
  if (expects_vmm(record_.state))
    if (const auto exit = co_await node_.host.noded.vmm_exit(record_.id, Deadline::after(retry_pause)))
      cause = describe(*exit);
  start_outcome_ = fail(Code::unavailable, "{}", cause);
  leftovers_ = true;
  note(LogLevel::error, "sandbox died", {{"reason", cause}});
  (void)change(Change::vmm_died, std::move(cause));
}

Task<void> Sandbox::bury() {
  meter_->close();
  std::string cause = co_await machine_->cause_of_death();
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
  co_await pause();
}

Task<void> Sandbox::do_delete() {
  const Monotonic begun = system_clock().monotonic();
  meter_->close();
  while (true) {
    auto removed = co_await unwind(undo_everything(), *machine_);
    if (removed) removed = node_.journal.erase(record_.id);
    if (removed) break;
    log::warn("sandbox deletion failed, will be repeated",
              {{"sandbox", record_.id}, log::Field(removed.error())});
    co_await pause();
  }
  record_.state = after(record_.state, Change::deletion_done).value_or(record_.state);
  log::info("sandbox deleted", {{"sandbox", record_.id}, {"ms", since(begun)}});
  note(LogLevel::info, "sandbox deleted");
  node_.logs.end(record_.id);
  node_.forget(record_.id);
  changed_.notify_all();
}

Task<void> Sandbox::pause() {
  co_await changed_.wait(Deadline::after(retry_pause));
}

Result<void> Sandbox::change(Change change, std::string reason) {
  const auto next = after(record_.state, change);
  if (!next) std::abort();  // this actor asked for what the table does not know
  SandboxRecord changed = record_;
  changed.state = *next;
  changed.reason = std::move(reason);
  const auto written = node_.journal.update(changed);
  if (!written) log::error("journal write failed", {{"sandbox", record_.id}, log::Field(written.error())});
  // A start must be on disk before it is true. Everything else is true already.
  if (!written && change == Change::start_done) return written;
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
    const bool in_between = in_transition(record_.state);
    if (!in_between && !serves(record_.state))
      co_return fail(Code::unavailable, "sandbox {} is not running: {}", record_.id, record_.reason);
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
