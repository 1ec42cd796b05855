// SnapshotSize: the room on the pool that comes back when a snapshot goes.
#pragma once

#include "core/snapshot.h"
#include "sandboxd/noded_client.h"

namespace space {

// Of all its files together: extents that nothing else refers to. Read on a worker thread. Errors as of
// vmm/exclusive_bytes.h, and not_found.
Task<Result<std::int64_t>> exclusive_bytes_of(NodedClient& noded, SnapshotId snapshot, Deadline deadline);

}  // namespace space
