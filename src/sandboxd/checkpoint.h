// Checkpoint: memory, devices and disk of one instant of a VM, as a snapshot on the pool. Incremental: only
// pages that differ from the snapshot before are written.
//
// Whatever fails, the VM is left as it was found (running, or standing still), and what was made of the
// snapshot is removed; the snapshots before stay whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sandboxd/journal.h"
#include "sandboxd/machine.h"
#include "sandboxd/turnstile.h"
#include "vmm/memory_capture.h"
#include "vmm/snapshot_manifest.h"

namespace space {

// One of the node: the memory that pages are staged in is used by one checkpoint at a time.
class CheckpointDesk {
 public:
  explicit CheckpointDesk(const Executor& executor);

  // The capture's own.
  vmm::StagingBuffer buffer;
  Turnstile turns;
  std::uint64_t stage_limit_bytes;
};

struct CheckpointSpec {
  SnapshotId id;
  std::uint64_t previous = 0;      // the one its memory starts from; 0: what the VMM was launched with
  vmm::SnapshotManifest manifest;  // all of it but what the checkpoint finds out itself
  SnapshotRecord record;           // the same
};

// `machine` runs; afterwards it runs. The guest's user programs are frozen for the instant. deadline,
// unavailable: the guest or QEMU did not do its part; exhausted: no room.
Task<Result<SnapshotRecord>> checkpoint_running(std::shared_ptr<Machine> machine, CheckpointDesk& desk,
                                                CheckpointSpec spec, Deadline deadline);
// `machine` stands still, frozen or not, and stays so.
Task<Result<SnapshotRecord>> checkpoint_stopped(std::shared_ptr<Machine> machine, CheckpointDesk& desk,
                                                CheckpointSpec spec, bool quiesced, Deadline deadline);

}  // namespace space
