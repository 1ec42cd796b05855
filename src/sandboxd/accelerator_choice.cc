#include "sandboxd/accelerator_choice.h"

#include <unistd.h>

#include "base/ids.h"
#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr const char* kvm_device = "/dev/kvm";
constexpr const char* boot_id_path = "/proc/sys/kernel/random/boot_id";
// Under a working KVM the guest answers within 2 s, nested virtualisation included.
constexpr Millis probe_limit = 8s;
constexpr Millis list_limit = 5s;
constexpr std::size_t file_limit_bytes = 4096;

std::string boot_id() {
  std::string id = read_file(boot_id_path, file_limit_bytes).value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

Task<void> interrupt_at(std::weak_ptr<Machine> machine, Deadline deadline) {
  co_await sleep_until(deadline);
  if (const auto alive = machine.lock()) alive->interrupt({Code::deadline, "the probe did not boot in time"});
}

}  // namespace

AcceleratorChoice::AcceleratorChoice(Machine::Host host, Templates& templates, std::string memory_path,
                                     std::optional<MachineAccelerator> forced)
    : host_(std::move(host)),
      templates_(templates),
      memory_path_(std::move(memory_path)),
      chosen_(forced),
      decided_(host_.executor) {
  if (!chosen_ && ::access(kvm_device, F_OK) != 0) chosen_ = MachineAccelerator::tcg;
  if (!chosen_) recall();
}

Task<MachineAccelerator> AcceleratorChoice::get() {
  if (!chosen_ && !std::exchange(deciding_, true)) {
    co_await decide();
    deciding_ = false;
    decided_.notify_all();
  }
  while (deciding_) co_await decided_.wait();
  co_return known();
}

Task<void> AcceleratorChoice::decide() {
  const auto templates = co_await templates_.list(Deadline::after(list_limit));
  if (!templates || templates->empty()) co_return;
  const auto digest = require_text(templates->front().get_object(), "digest");
  if (!digest) co_return;
  chosen_ = co_await probe(*digest);
  if (chosen_) remember();
  log::info("accelerator probed", {{"result", chosen_ ? to_string(*chosen_) : "not possible"}});
}

Task<std::optional<MachineAccelerator>> AcceleratorChoice::probe(std::string template_digest) {
  const auto first_epoch = [] { return Result<std::uint64_t>(1); };
  // Not in the journal: after a crash the next start finds an orphan and removes it.
  const auto machine =
      std::make_shared<Machine>(host_, new_sandbox_id(), ChannelLink::Hooks{first_epoch, [] {}});
  spawn(host_.executor, "probe limit", interrupt_at(machine, Deadline::after(probe_limit)));
  const PlanOutcome outcome =
      co_await run_plan(plan_cold_start({template_digest, Shape{}, MachineAccelerator::kvm}), *machine);
  if (outcome.started)
    if (const auto removed = co_await unwind(undo_everything(), *machine); !removed)
      log::warn("the probe VM was not removed", {log::Field(removed.error())});
  if (outcome.started) co_return MachineAccelerator::kvm;
  log::info("KVM does not boot a guest", {log::Field(outcome.started.error())});
  if (!machine->launched()) co_return std::nullopt;
  co_return MachineAccelerator::tcg;
}

void AcceleratorChoice::recall() {
  const auto text = read_file(memory_path_, file_limit_bytes);
  if (!text) return;
  const auto memory = parse_json_object(*text, "accelerator memory");
  if (!memory) return;
  const auto boot = require_text(*memory, "boot_id");
  const auto name = require_text(*memory, "accelerator");
  if (!boot || !name || *boot != boot_id()) return;
  for (const auto accelerator : {MachineAccelerator::tcg, MachineAccelerator::kvm})
    if (*name == to_string(accelerator)) chosen_ = accelerator;
}

void AcceleratorChoice::remember() {
  const JsonObject memory{{"boot_id", boot_id()}, {"accelerator", to_string(*chosen_)}};
  if (const auto written = write_file_durably(memory_path_, to_text(memory) + "\n", 0600); !written)
    log::warn("the accelerator is not remembered", {log::Field(written.error())});
}

}  // namespace space
