// Lineage: which snapshots the present state of a sandbox descends from. Pure.
//
// Every snapshot names the state it followed, its parent; the head is the one the present state follows. What
// a rollback left behind hangs on no way from the head any more, however young it is: whoever needs "the
// newest" asks here and never compares times.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/lifecycle.h"
#include "core/snapshot.h"

namespace space {

// The head and its parents, newest first. Ends where a parent is not there, and after as many steps as there
// are snapshots: a journal may be damaged. Empty for head 0.
std::vector<SnapshotRecord> lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t head);
bool on_lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t head, std::uint64_t number);

// What changes with the removal of one: its children take over its parent, and so does the head.
struct Removal {
  std::vector<SnapshotRecord> reparented;  // as they are afterwards
  std::uint64_t head = 0;
};
Removal remove_from_lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t number,
                            std::uint64_t head);

// Where a sandbox begins again after a rollback: `head`, and its memory with it or none.
struct RollbackTarget {
  SnapshotRecord snapshot;
  State state;  // resting, until it goes on
  MemoryPlace memory;
};
// `number`: the client's choice; nothing: undo of the last rollback, which left `undo` behind (0: there was
// none). not_found: no such snapshot of this sandbox; conflict: nothing to undo.
Result<RollbackTarget> rollback_target(const std::vector<SnapshotRecord>& snapshots,
                                       std::optional<std::uint64_t> number, std::uint64_t undo);

// Of one that is there already and is asked for once more: the cause that keeps it longer.
SnapshotCause stronger(SnapshotCause there, SnapshotCause asked);

}  // namespace space
