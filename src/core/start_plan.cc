#include "core/start_plan.h"

#include <array>
#include <ranges>

namespace space {
namespace {

using namespace std::chrono_literals;

// Verbs of the node manager answer in milliseconds; they get seconds because it may be restarting.
constexpr Millis verb_limit = 10s;
constexpr Millis qmp_limit = 15s;
// A guest under software emulation boots in 3-4 s, on a crowded machine in many times that.
constexpr Millis boot_limit = 60s;
constexpr Millis guest_call_limit = 15s;

}  // namespace

StartPlan plan_cold_start(const StartSpec& spec) {
  return {
      {effect::CreateDisk{spec.template_digest, spec.shape.disk_mib}, Undo::remove_disk, verb_limit},
      {effect::CreateSlot{}, Undo::remove_slot, verb_limit},
      {effect::OpenSockets{}, Undo::remove_sockets, verb_limit},
      {effect::LaunchVmm{spec.shape.vcpus, spec.shape.memory_mib, spec.accelerator}, Undo::end_vmm,
       verb_limit},
      {effect::ConnectQmp{}, Undo::none, qmp_limit},
      {effect::AttachChannel{}, Undo::close_channel, boot_limit},
      {effect::SetIdentity{}, Undo::none, guest_call_limit},
      {effect::InitGuest{}, Undo::none, guest_call_limit},
  };
}

std::vector<Undo> undo_everything() {
  std::vector<Undo> undos;
  for (const Step& step : plan_cold_start({}) | std::views::reverse)
    if (step.undo != Undo::none) undos.push_back(step.undo);
  return undos;
}

std::string_view name_of(const Effect& effect) {
  constexpr std::array<std::string_view, std::variant_size_v<Effect>> names = {
      "create disk", "create network slot", "open sockets", "launch VMM",
      "connect QMP", "attach channel",      "set identity", "initialise guest"};
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
