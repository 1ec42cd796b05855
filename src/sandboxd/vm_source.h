// VmSource: what a VM that is restored begins as, and what a node must know of it first.
#pragma once

#include "core/start_plan.h"
#include "sandboxd/machine.h"

namespace space {

// VMs of one are alike until they are told their names.
struct VmKind {
  std::string template_digest;
  Shape shape;
  std::optional<SnapshotId> snapshot;  // nullopt: the template's own checkpoint
  bool operator<(const VmKind& other) const {
    const auto key = [](const VmKind& k) {
      return std::tie(k.template_digest, k.shape.vcpus, k.shape.memory_mib, k.shape.disk_mib, k.snapshot);
    };
    return key(*this) < key(other);
  }
};

struct VmSource {
  StartSource start;
  std::int64_t generation = 1;  // of what begins from it
};

// Of a sandbox's snapshot. not_found: it is gone; conflict with the reason: its memory cannot go on on this
// machine; invalid_argument: it is damaged.
Task<Result<VmSource>> open_source(Machine::Host host, SnapshotId snapshot, SnapshotKind kind,
                                   MachineAccelerator accelerator);

}  // namespace space
