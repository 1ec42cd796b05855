// StartPlan: a start is a value. An ordered list of effects, each with what undoes it; built here by a pure
// function, executed or unwound by one runner (sandboxd/plan_runner.h).
//
// Effects carry what is needed to repeat them, never a secret: tokens stay with the executor.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "core/shape.h"

namespace space {

enum class MachineAccelerator : unsigned char { tcg, kvm };
constexpr std::string_view to_string(MachineAccelerator accelerator) {
  return accelerator == MachineAccelerator::kvm ? "kvm" : "tcg";
}

namespace effect {
struct CreateDisk {
  std::string template_digest;
  std::int64_t disk_mib = 0;
};
struct CreateSlot {};   // the network namespace and its tap
struct OpenSockets {};  // QMP and channel, listening, for QEMU to inherit
struct LaunchVmm {
  std::int64_t vcpus = 0;
  std::int64_t memory_mib = 0;
  MachineAccelerator accelerator = MachineAccelerator::tcg;
  bool restore = false;  // with the memory of the snapshot its disk came from, not running yet
};
struct ConnectQmp {};
struct AttachChannel {};  // to the daemon's first HTTP/2 byte; brings clock and entropy
struct SetIdentity {};    // id and hostname
struct InitGuest {};      // token, environment, default user
}  // namespace effect

using Effect =
    std::variant<effect::CreateDisk, effect::CreateSlot, effect::OpenSockets, effect::LaunchVmm,
                 effect::ConnectQmp, effect::AttachChannel, effect::SetIdentity, effect::InitGuest>;

// Every undo is idempotent and does nothing where its effect never happened.
enum class Undo : unsigned char { none, remove_disk, remove_slot, remove_sockets, end_vmm, close_channel };

struct Step {
  Effect effect;
  Undo undo = Undo::none;
  Millis limit{0};  // longest the effect may take
};
using StartPlan = std::vector<Step>;

struct StartSpec {
  std::string template_digest;
  Shape shape;
  MachineAccelerator accelerator = MachineAccelerator::tcg;
};

// First start of a sandbox, from its template.
StartPlan plan_cold_start(const StartSpec& spec);

// What undoes everything a start may ever have left, in reverse order: the same steps whether a start is
// unwound, a dead sandbox buried or an orphan removed.
std::vector<Undo> undo_everything();

std::string_view name_of(const Effect& effect);  // "attach channel"
std::string_view to_string(Undo undo);

}  // namespace space
