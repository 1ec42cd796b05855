#include "sandboxd/accelerator_probe.h"

#include "base/ids.h"
#include "base/log.h"
#include "vmm/accelerator.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis list_limit = 5s;

MachineAccelerator from(vmm::Accelerator accelerator) {
  return accelerator == vmm::Accelerator::kvm ? MachineAccelerator::kvm : MachineAccelerator::tcg;
}

Task<void> interrupt_at(std::weak_ptr<Machine> machine, Deadline deadline) {
  co_await sleep_until(deadline);
  if (const auto alive = machine.lock()) alive->interrupt({Code::deadline, "the probe did not boot in time"});
}

}  // namespace

AcceleratorProbe::AcceleratorProbe(Machine::Host host, Templates& templates, std::string record_path,
                                   std::optional<MachineAccelerator> forced)
    : host_(std::move(host)),
      templates_(templates),
      record_path_(std::move(record_path)),
      chosen_(forced),
      decided_(host_.executor) {}

Task<MachineAccelerator> AcceleratorProbe::get() {
  if (!chosen_ && !deciding_) {
    deciding_ = true;
    co_await decide();
    deciding_ = false;
    decided_.notify_all();
  }
  while (deciding_) co_await decided_.wait();
  co_return known();
}

Task<void> AcceleratorProbe::decide() {
  const auto facts = vmm::read_accelerator_facts(record_path_);
  if (!facts) {
    log::warn("accelerator facts are not readable", {log::Field(facts.error())});
    co_return;
  }
  const vmm::AcceleratorChoice choice = vmm::decide(*facts);
  if (!choice.needs_probe) {
    chosen_ = from(choice.accelerator);
    log::info("accelerator chosen", {{"accelerator", to_string(*chosen_)}, {"reason", choice.reason}});
    co_return;
  }
  const auto templates = co_await templates_.list(Deadline::after(list_limit));
  if (!templates || templates->empty()) co_return;
  const auto digest = require_text(templates->front().get_object(), "digest");
  if (!digest) co_return;
  const std::optional<bool> works = co_await kvm_boots(*digest);
  if (!works) co_return;
  chosen_ = *works ? MachineAccelerator::kvm : MachineAccelerator::tcg;
  log::info("accelerator probed", {{"accelerator", to_string(*chosen_)}});
  remember(*works, facts->boot_id);
}

Task<std::optional<bool>> AcceleratorProbe::kvm_boots(std::string template_digest) {
  const auto first_epoch = [] { return Result<std::uint64_t>(1); };
  // Not in the journal: after a crash the next start finds an orphan and removes it.
  const auto machine =
      std::make_shared<Machine>(host_, new_sandbox_id(), ChannelLink::Hooks{first_epoch, [] {}});
  spawn(host_.executor, "probe limit", interrupt_at(machine, Deadline::after(vmm::kvm_probe_limit)));
  const PlanOutcome outcome =
      co_await run_plan(plan_cold_start({template_digest, Shape{}, MachineAccelerator::kvm}), *machine);
  const Result<void> removed =
      outcome.started ? co_await unwind(undo_everything(), *machine) : outcome.unwound;
  if (!removed) log::warn("the probe VM was not removed", {log::Field(removed.error())});
  if (outcome.started) co_return true;
  log::info("KVM does not boot a guest", {log::Field(outcome.started.error())});
  if (!machine->launched()) co_return std::nullopt;
  co_return false;
}

void AcceleratorProbe::remember(bool kvm_works, std::string boot_id) const {
  const vmm::ProbeRecord record{std::move(boot_id), kvm_works,
                                kvm_works ? "a guest booted under KVM" : "a guest did not boot under KVM"};
  if (const auto written = write_file_durably(record_path_, vmm::format_probe_record(record), 0600); !written)
    log::warn("the accelerator is not remembered", {log::Field(written.error())});
}

}  // namespace space
