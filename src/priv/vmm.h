// Launching a sandbox's VMM. A small supervisor of its own is the VMM's parent: it starts it, keeps the
// first of its output, sees its end, writes that down, and ends. No daemon's death reaches either.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "priv/cgroup.h"
#include "priv/layout.h"
#include "priv/permit.h"
#include "priv/pool.h"
#include "priv/vmm_record.h"
#include "vmm/command_line.h"

namespace space::priv {

struct VmmHandle {
  Fd pidfd;
  ProcessId process;
};

struct VmmLaunch {
  SandboxPermit sandbox;
  vmm::MachineSpec machine;           // its descriptor numbers are chosen by the launch
  Fd qmp, channel;                    // listening sockets
  std::string bundle;                 // name of the one with its QEMU (bundle.h)
  Fd memory;                          // what its memory reads as until written; none: zeros
  std::vector<Fd> disks;              // of snapshots, read only: it gets copies; at most two
  std::vector<std::string> may_miss;  // layers of the jail without which it may run where the kernel has none
};

// Becomes the supervisor: call it in a process of its own, and end that process when it returns.
// `started` is called once, as soon as the VMM runs or is known not to; after a failure nothing is left.
void launch_vmm(const Layout& layout, const Pool& pool, const Cgroups& cgroups, VmmLaunch launch,
                const std::function<void(Result<VmmHandle>)>& started);

// A running one. not_found when there is none; unavailable while it begins or ends: ask again.
Result<VmmHandle> open_vmm(const Layout& layout, const SandboxPermit& sandbox);
// SIGKILL to everything in its group. Success when there is none.
Result<void> kill_vmm(const Cgroups& cgroups, const SandboxPermit& sandbox);
// Of a running one, else not_found or unavailable.
Result<VmmFacts> vmm_facts(const Layout& layout, const SandboxPermit& sandbox);
// mem, maps and pagemap of its process in /proc, read only: the reader needs no power of its own.
struct VmmMemory {
  Fd mem, maps, pagemap;
};
Result<VmmMemory> open_vmm_memory(const Layout& layout, const SandboxPermit& sandbox);
// not_found while it runs or when it never ran; unavailable in the moment between its end and the record.
Result<VmmExit> read_vmm_exit(const Layout& layout, const SandboxPermit& sandbox);
// Removes group and record. conflict while it runs, success when there is none.
Result<void> forget_vmm(const Layout& layout, const Cgroups& cgroups, const SandboxPermit& sandbox);
// Ends what a crash in the middle of a launch left running unrecorded.
Result<void> remove_half_made_vmms(const Layout& layout, const Cgroups& cgroups);

}  // namespace space::priv
