// StartPlan: a start is a value. An ordered list of effects, each with what undoes it; built here by a pure
// function, executed or unwound by one runner (sandboxd/plan_runner.h).
//
// Effects carry what is needed to repeat them, never a secret: tokens stay with the executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "core/shape.h"
#include "core/snapshot.h"

namespace space {

enum class MachineAccelerator : unsigned char { tcg, kvm };
constexpr std::string_view to_string(MachineAccelerator accelerator) {
  return accelerator == MachineAccelerator::kvm ? "kvm" : "tcg";
}

// Two snapshots of one sandbox, by number: their disks are compared in a VM that has neither as its own.
struct DiskPair {
  std::string sandbox;
  std::uint64_t first = 0, second = 0;
};

// What a guest knows of an earlier host, which decides how the next one attaches (api/channel.md).
enum class EarlierHost : unsigned char {
  none,    // it waits for its first, or for the next
  gone,    // it runs, and sees in a moment that its last one has gone
  copied,  // the last one was another machine's, of which this is a copy: it stands between two frames of
           // that session
  cut,     // the same, but it stands anywhere in that session
};

namespace effect {
struct CreateDisk {
  std::string template_digest;
  std::int64_t disk_mib = 0;
};
struct RestoreDisk {   // of a snapshot
  std::string source;  // the sandbox it was taken of
  std::uint64_t number = 0;
};
struct CreateSlot {};    // the network namespace and its tap
struct OpenGateway {};   // begins to connect the slot with the gateway, under the sandbox's policy
struct AwaitGateway {};  // it is connected: before user code runs
struct OpenSockets {};   // QMP and channel, listening, for QEMU to inherit
struct LaunchVmm {
  std::int64_t vcpus = 0;
  std::int64_t memory_mib = 0;
  MachineAccelerator accelerator = MachineAccelerator::tcg;
  bool restore = false;  // with the memory of the snapshot its disk came from, not running yet
  // Its kernel leaves no content in free pages, so that a checkpoint does not store them. Its clones inherit
  // that; it costs a boot that touches all memory.
  bool zero_free_pages = false;
  std::optional<DiskPair> disks{};  // seen as a second and a third one, read only; of a VM that boots
};
struct ConnectQmp {};
struct LoadState {  // of the devices, from the same snapshot
  std::string source;
  std::uint64_t number = 0;
};
struct Continue {};        // the vCPUs
struct ConnectChannel {};  // ahead of its attach: a copy that gets its devices then sees no host come or go
struct AttachChannel {     // to the daemon's first HTTP/2 byte; brings clock and entropy
  EarlierHost earlier = EarlierHost::none;
};
struct SetIdentity {};  // id and hostname
struct InitGuest {};    // token, environment, default user
struct WakeGuest {};    // a restored guest: entropy, clock, identity and all it is told before user code runs
}  // namespace effect

using Effect = std::variant<effect::CreateDisk, effect::RestoreDisk, effect::CreateSlot, effect::OpenGateway,
                            effect::AwaitGateway, effect::OpenSockets, effect::LaunchVmm,
                            effect::ConnectChannel, effect::ConnectQmp, effect::LoadState, effect::Continue,
                            effect::AttachChannel, effect::SetIdentity, effect::InitGuest, effect::WakeGuest>;

// Every undo is idempotent and does nothing where its effect never happened.
enum class Undo : unsigned char {
  none,
  remove_disk,
  remove_slot,
  close_gateway,   // the gateway keeps policy and names
  forget_gateway,  // nor those
  remove_sockets,
  end_vmm,
  close_channel
};

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
  bool zero_free_pages = false;
};

// First start of a sandbox, from its template.
StartPlan plan_cold_start(const StartSpec& spec);

// What a sandbox begins as, where that is not its template's disk.
struct StartSource {
  SnapshotId snapshot;
  SnapshotKind kind = SnapshotKind::full;
  EarlierHost host = EarlierHost::none;  // of its memory
};
// First start of a sandbox from a snapshot: a full one goes on, one of the disk boots. Either way the guest
// is told all in one: who it is now, and that it is not the one it was.
StartPlan plan_start_from(const StartSpec& spec, const StartSource& source);
// A cold sandbox goes on from a checkpoint of its own; undone, it is as before. `host`: of that memory.
StartPlan plan_resume(const StartSpec& spec, const SnapshotId& from, EarlierHost host);
// A sandbox boots from the disk it has; undone, it has it still.
StartPlan plan_boot(const StartSpec& spec);
// What undoes all that belongs to a VMM and leaves the disk, in reverse order.
std::vector<Undo> undo_vmm();

// What undoes everything a start may ever have left, in reverse order: the same steps whether a start is
// unwound, a dead sandbox buried or an orphan removed.
std::vector<Undo> undo_everything();

std::string_view name_of(const Effect& effect);  // "attach channel"
std::string_view to_string(Undo undo);

}  // namespace space
