#include "core/start_plan.h"

#include <array>
#include <ranges>

namespace space {
namespace {

using namespace std::chrono_literals;

// Verbs of the node manager answer in milliseconds; they get seconds because it may be restarting.
constexpr Millis verb_limit = 10s;
constexpr Millis qmp_limit = 15s;
constexpr Millis gateway_limit = 10s;
// A guest under software emulation boots in 3-4 s, on a crowded machine in many times that.
constexpr Millis boot_limit = 60s;
constexpr Millis guest_call_limit = 15s;
// Its hooks may take 2 s each.
constexpr Millis wake_limit = 60s;

// Undone, there was never a sandbox.
StartPlan first_start(StartPlan plan) {
  for (Step& step : plan)
    if (step.undo == Undo::close_gateway) step.undo = Undo::forget_gateway;
  plan.front().undo = Undo::remove_disk;
  return plan;
}

}  // namespace

StartPlan plan_cold_start(const StartSpec& spec) {
  StartPlan plan = plan_boot(spec);
  plan.insert(plan.begin(),
              {effect::CreateDisk{spec.template_digest, spec.shape.disk_mib}, Undo::remove_disk, verb_limit});
  return first_start(std::move(plan));
}

StartPlan plan_boot(const StartSpec& spec) {
  return {
      {effect::CreateSlot{}, Undo::remove_slot, verb_limit},
      {effect::OpenGateway{}, Undo::close_gateway, verb_limit},
      {effect::OpenSockets{}, Undo::remove_sockets, verb_limit},
      {effect::LaunchVmm{spec.shape.vcpus, spec.shape.memory_mib, spec.accelerator, false,
                         spec.zero_free_pages},
       Undo::end_vmm, verb_limit},
      {effect::ConnectQmp{}, Undo::none, qmp_limit},
      {effect::AwaitGateway{}, Undo::none, gateway_limit},
      {effect::AttachChannel{}, Undo::close_channel, boot_limit},
      {effect::SetIdentity{}, Undo::none, guest_call_limit},
      {effect::InitGuest{}, Undo::none, guest_call_limit},
  };
}

namespace {

StartPlan plan_disk_start(const StartSpec& spec, const SnapshotId& from) {
  StartPlan plan = plan_boot(spec);
  plan.insert(plan.begin(), {effect::RestoreDisk{from.sandbox, from.number}, Undo::remove_disk, verb_limit});
  std::erase_if(plan, [](const Step& step) {
    return std::holds_alternative<effect::SetIdentity>(step.effect) ||
           std::holds_alternative<effect::InitGuest>(step.effect);
  });
  plan.push_back({effect::WakeGuest{}, Undo::none, wake_limit});
  return first_start(std::move(plan));
}

}  // namespace

StartPlan plan_start_from(const StartSpec& spec, const StartSource& source) {
  if (source.kind == SnapshotKind::disk) return plan_disk_start(spec, source.snapshot);
  return first_start(plan_resume(spec, source.snapshot, source.host));
}

StartPlan plan_resume(const StartSpec& spec, const SnapshotId& from, EarlierHost host) {
  StartPlan plan{
      {effect::RestoreDisk{from.sandbox, from.number}, Undo::none, verb_limit},
      {effect::CreateSlot{}, Undo::remove_slot, verb_limit},
      {effect::OpenGateway{}, Undo::close_gateway, verb_limit},
      {effect::OpenSockets{}, Undo::remove_sockets, verb_limit},
      {effect::LaunchVmm{spec.shape.vcpus, spec.shape.memory_mib, spec.accelerator, true}, Undo::end_vmm,
       verb_limit},
  };
  // One that must see a hang-up has to run before anybody connects.
  if (host != EarlierHost::cut) plan.push_back({effect::ConnectChannel{}, Undo::close_channel, qmp_limit});
  plan.insert(plan.end(), {{effect::ConnectQmp{}, Undo::none, qmp_limit},
                           {effect::LoadState{from.sandbox, from.number}, Undo::none, qmp_limit},
                           {effect::AwaitGateway{}, Undo::none, gateway_limit},
                           {effect::Continue{}, Undo::none, qmp_limit},
                           {effect::AttachChannel{host}, Undo::close_channel, boot_limit},
                           {effect::WakeGuest{}, Undo::none, wake_limit}});
  return plan;
}

namespace {

std::vector<Undo> undos_of(const StartPlan& plan) {
  std::vector<Undo> undos;
  for (const Step& step : plan | std::views::reverse)
    if (step.undo != Undo::none) undos.push_back(step.undo);
  return undos;
}

}  // namespace

std::vector<Undo> undo_vmm() {
  return undos_of(plan_boot({}));
}

std::vector<Undo> undo_everything() {
  return undos_of(plan_cold_start({}));
}

std::string_view name_of(const Effect& effect) {
  constexpr std::array<std::string_view, std::variant_size_v<Effect>> names = {
      "create disk",  "restore disk",   "create network slot", "open gateway",     "await gateway",
      "open sockets", "launch VMM",     "connect channel",     "connect QMP",      "load state",
      "continue",     "attach channel", "set identity",        "initialise guest", "wake guest"};
  return names[effect.index()];
}

std::string_view to_string(Undo undo) {
  switch (undo) {
    case Undo::none:
      return "nothing";
    case Undo::remove_disk:
      return "remove disk";
    case Undo::remove_slot:
      return "remove network slot";
    case Undo::close_gateway:
      return "close gateway";
    case Undo::forget_gateway:
      return "forget gateway";
    case Undo::remove_sockets:
      return "remove sockets";
    case Undo::end_vmm:
      return "end VMM";
    case Undo::close_channel:
      return "close channel";
  }
  __builtin_unreachable();
}

}  // namespace space
