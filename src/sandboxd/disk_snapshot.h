// DiskSnapshot: the disk of one instant, as a snapshot on the pool. A VM that runs is not stopped for it: its
// guest flushes and holds its file systems for the moment of the copy.
//
// Whatever fails, the guest's disk is let go again, what was made of the snapshot is removed, and nothing
// else has changed.
#pragma once

#include "sandboxd/checkpoint.h"

namespace space {

// Who may write while it is copied.
enum class DiskUse : unsigned char {
  running,  // a guest, which is asked to hold still. Without its answer the copy is what a power cut leaves
  paused,   // nobody; a guest holds what it had not flushed
  unused,   // nobody: there is no VMM
};

// `spec.previous` is of no use. `quiesced`: whether the guest had flushed all of it when it ended or stood
// still; of a running one it is found out. deadline, unavailable: the node manager did not do its part;
// exhausted: no room.
Task<Result<SnapshotRecord>> take_disk_snapshot(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                                DiskUse use, bool quiesced, Deadline deadline);

}  // namespace space
