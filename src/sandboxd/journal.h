// Journal: what this node has taken on, written before it is done. The sandbox manager's own SQLite file, off
// the pool.
//
// Commits run on the loop's thread: durable in 0.2-1.3 ms, less than handing them to another thread and back
// is worth. No token, environment or other secret is ever written here.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/lifecycle.h"
#include "core/recovery.h"
#include "core/schedule.h"
#include "core/shape.h"
#include "core/snapshot.h"
#include "core/start_plan.h"
#include "store/sqlite.h"

namespace space {

// When a sandbox is paused by its node alone. nullopt: the node's default.
struct PausePolicy {
  std::optional<std::int64_t> idle_pause_s;  // default: never
  std::optional<std::int64_t> hot_keep_s;    // until a paused one's memory goes to the pool
};

struct SandboxRecord {
  std::string id;
  std::int64_t generation = 0;
  std::string template_digest;
  Shape shape;
  std::string team;
  MachineAccelerator accelerator = MachineAccelerator::tcg;  // its VMM was started with
  State state = State::creating;
  Wanted wanted = Wanted::running;
  std::string reason;              // why, where a state needs it
  std::optional<Wall> started_at;  // when it became running
  std::optional<Wall> wake_at;     // when its guest wants to run again, if it sleeps by then
  MemoryPlace memory = MemoryPlace::vmm;
  bool idle = false;                // paused by the node itself, which resumes it by itself
  std::uint64_t last_snapshot = 0;  // the highest number ever given to one of its own
  // The newest of its own that its present state descends from, and parent of the next; 0: none. Holds its
  // memory where that is in a checkpoint.
  std::uint64_t head = 0;
  // What a rollback left behind last, for its undo; 0: none.
  std::uint64_t undo = 0;
  bool disk_from_head = false;  // its disk is still to become that of `head`; before its next boot
  // The newest that was taken of, or restored into, the VMM it has: pages are compared with it. 0: none.
  std::uint64_t compared_with = 0;
  std::optional<SnapshotId> restored_from;  // whose memory its VMM still reads from
  std::int64_t counter = 1;                 // grows with every restore; the guest reads it
  PausePolicy policy;
  std::optional<SnapshotId> origin;  // it began as this; never changes
  std::optional<SnapshotSchedule> schedule;
  RecoveryPolicy recovery = RecoveryPolicy::disk;
  std::optional<RecoveryNote> recovered;          // the last time
  std::string egress = R"({"mode":"deny_all"})";  // JSON of core/egress_policy.h
  std::int64_t egress_generation = 0;
};

// What happened to a sandbox and cannot be read off its snapshots.
enum class HistoryKind : unsigned char { snapshot_removed, rollback, fork, recovery };
std::string_view to_string(HistoryKind kind);
std::optional<HistoryKind> history_kind_from(std::string_view name);

struct HistoryRow {
  std::string sandbox;
  Wall at{};
  HistoryKind kind = HistoryKind::snapshot_removed;
  std::optional<std::uint64_t> number;  // of the snapshot it is about
  std::optional<std::string> other;     // sandbox
  std::string text;                     // a sentence for people
};
inline constexpr std::int64_t history_rows_max = 1'000;  // of a sandbox; the newest stay

// Changes that are true together or not at all.
struct JournalChange {
  const SandboxRecord* record = nullptr;  // as `update` takes it
  std::vector<SnapshotRecord> snapshots;  // new, or changed
  std::vector<SnapshotId> removed;
  std::vector<HistoryRow> history;
};

// The checkpoint that sandboxes of a template and shape begin from: snapshot 1 of `builder`, a sandbox that
// is no more.
struct TemplateCheckpoint {
  std::string template_digest;
  Shape shape;
  std::string builder;
};

// Channels of VMs that belong to no record yet (parked ones, builders) are attached under smaller numbers.
inline constexpr std::uint64_t epochs_before_a_record = 1000;

class Journal {
 public:
  // `path` is created when missing; an older schema is migrated, a newer one refused.
  static Result<Journal> open(const std::string& path);

  Result<std::vector<SandboxRecord>> sandboxes();
  Result<void> insert(const SandboxRecord& record);  // conflict: the id is there
  Result<void> update(const SandboxRecord& record);  // all that changes in its life, but wake_at
  Result<void> commit(const JournalChange& change);
  Result<void> set_wake_at(const std::string& id, std::optional<Wall> wake_at);
  // Also an unknown one; with its history and its snapshots, but those with a number in `kept`, which belong
  // to no sandbox from then on.
  Result<void> erase(const std::string& id, const std::set<std::uint64_t>& kept = {});
  Result<std::vector<SnapshotRecord>> snapshots();  // by sandbox and number
  Result<std::vector<SnapshotRecord>> snapshots_of(const std::string& id);
  Result<std::vector<HistoryRow>> history(const std::string& id);  // oldest first

  Result<std::vector<TemplateCheckpoint>> template_checkpoints();
  Result<void> add_template_checkpoint(const TemplateCheckpoint& checkpoint);  // replaces one of that shape
  Result<void> erase_template_checkpoint(const std::string& builder);

  // The number of the next attach of a sandbox's channel, never given twice.
  Result<std::uint64_t> next_epoch(const std::string& id);

  // Made once, kept for the life of the state folder.
  const std::string& node_id() const { return node_id_; }

 private:
  Journal(Sqlite db, std::string node_id) : db_(std::move(db)), node_id_(std::move(node_id)) {}

  Sqlite db_;
  std::string node_id_;
};

}  // namespace space
