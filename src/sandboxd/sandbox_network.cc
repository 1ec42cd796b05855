// The half of Sandbox that has to do with its network: what it may reach, and that its slot is sound.
#include "base/log.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis check_limit = 5s;

}  // namespace

// A fork knows the names that the one it came from was told.
Egress Sandbox::egress() const {
  return {record_.egress, record_.egress_generation,
          record_.origin ? record_.origin->sandbox : std::string()};
}

bool Sandbox::has_slot() const {
  return expects_vmm(record_.state, record_.memory) && machine_->pid() != 0 && !order_ && !being_deleted();
}

Task<Result<std::int64_t>> Sandbox::set_egress(std::string policy, Deadline deadline) {
  const auto self = shared_from_this();
  while (changing_egress_)
    if (!co_await changed_.wait(deadline)) co_return fail(Code::conflict, "its policy is being changed");
  if (being_deleted()) co_return fail(Code::not_found, "sandbox {} does not exist", record_.id);
  const Egress before = egress();
  Egress next = before;
  next.policy = std::move(policy);
  ++next.generation;
  changing_egress_ = true;
  machine_->set_egress(next);
  auto cut = co_await node_.host.netd.set_policy(record_.id, next, deadline);
  changing_egress_ = false;
  changed_.notify_all();
  if (cut) {
    SandboxRecord record = record_;
    record.egress = next.policy;
    record.egress_generation = next.generation;
    const auto written = node_.journal.update(record);
    if (written) {
      record_ = std::move(record);
      machine_->set_egress(next);  // it may be another one by now
      note(LogLevel::info, "egress policy changed",
           {{"generation", std::to_string(next.generation)}, {"flows_cut", std::to_string(*cut)}});
      co_return cut;
    }
    cut = std::unexpected(written.error());
    if (node_.host.netd.is_attached(record_.id))
      (void)co_await node_.host.netd.attach(record_.id, before, Deadline::after(check_limit));
  }
  machine_->set_egress(before);
  co_return cut;
}

Task<void> Sandbox::check_slot() {
  const auto self = shared_from_this();
  if (!has_slot()) co_return;
  const std::shared_ptr<Machine> machine = machine_;
  const auto checked = co_await node_.host.noded.slot_check(record_.id, Deadline::after(check_limit));
  // What is being taken away is no sign of anything.
  if (machine != machine_ || !has_slot()) co_return;
  if (checked && !*checked) co_return;
  if (checked) {
    note(LogLevel::warn, "its network slot was changed from outside, and put right");
    machine->note_repair("its network slot was changed from outside at " + to_rfc3339(system_clock().wall()) +
                         ", and put right");
    co_return;
  }
  if (checked.error().code != Code::not_found && checked.error().code != Code::conflict) {
    log::warn("network slot not checked", {{"sandbox", record_.id}, log::Field(checked.error())});
    co_return;
  }
  log::error("network slot lost", {{"sandbox", record_.id}, log::Field(checked.error())});
  co_await machine->end("its network slot was changed from outside");
}

}  // namespace space
