#include "core/lineage.h"

#include <algorithm>

namespace space {
namespace {

const SnapshotRecord* find(const std::vector<SnapshotRecord>& snapshots, std::uint64_t number) {
  const auto found = std::ranges::find(snapshots, number, &SnapshotRecord::number);
  return found == snapshots.end() ? nullptr : &*found;
}

int strength(SnapshotCause cause) {
  switch (cause) {
    case SnapshotCause::pause:
      return 0;
    case SnapshotCause::fork:
      return 1;
    case SnapshotCause::schedule:
      return 2;
    case SnapshotCause::before_recovery:
    case SnapshotCause::before_rollback:
      return 3;
    case SnapshotCause::published:
      return 4;
    case SnapshotCause::asked:
      return 5;
  }
  __builtin_unreachable();
}

}  // namespace

std::vector<SnapshotRecord> lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t head) {
  std::vector<SnapshotRecord> line;
  std::optional<std::uint64_t> next = head;
  while (next && line.size() < snapshots.size()) {
    const SnapshotRecord* snapshot = find(snapshots, *next);
    if (snapshot == nullptr) break;
    line.push_back(*snapshot);
    next = snapshot->parent;
  }
  return line;
}

bool on_lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t head, std::uint64_t number) {
  const auto line = lineage(snapshots, head);
  return std::ranges::find(line, number, &SnapshotRecord::number) != line.end();
}

Removal remove_from_lineage(const std::vector<SnapshotRecord>& snapshots, std::uint64_t number,
                            std::uint64_t head) {
  Removal removal{.reparented = {}, .head = head};
  const SnapshotRecord* removed = find(snapshots, number);
  const std::optional<std::uint64_t> parent = removed == nullptr ? std::nullopt : removed->parent;
  for (SnapshotRecord child : snapshots) {
    if (child.parent != number) continue;
    child.parent = parent;
    removal.reparented.push_back(std::move(child));
  }
  if (head == number) removal.head = parent.value_or(0);
  return removal;
}

Result<RollbackTarget> rollback_target(const std::vector<SnapshotRecord>& snapshots,
                                       std::optional<std::uint64_t> number, std::uint64_t undo) {
  if (!number && undo == 0) return fail(Code::conflict, "there is no rollback to undo");
  const SnapshotRecord* snapshot = find(snapshots, number.value_or(undo));
  if (snapshot == nullptr && !number)
    return fail(Code::not_found, "the state before the last rollback, snapshot {}, was removed", undo);
  if (snapshot == nullptr) return fail(Code::not_found, "there is no snapshot {}", *number);
  if (snapshot->kind == SnapshotKind::full)
    return RollbackTarget{*snapshot, State::paused, MemoryPlace::checkpoint};
  return RollbackTarget{*snapshot, State::stopped, MemoryPlace::none};
}

SnapshotCause stronger(SnapshotCause there, SnapshotCause asked) {
  return strength(asked) > strength(there) ? asked : there;
}

}  // namespace space
