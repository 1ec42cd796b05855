// Journal: what this node has taken on, written before it is done. The sandbox manager's own SQLite file, off
// the pool.
//
// Commits run on the loop's thread: durable in 0.2-1.3 ms, less than handing them to another thread and back
// is worth. No token, environment or other secret is ever written here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/lifecycle.h"
#include "core/shape.h"
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
  std::uint64_t last_snapshot = 0;  // the newest of its own: its memory, where that is in a checkpoint
  // The newest that was taken of, or restored into, the VMM it has: pages are compared with it. 0: none.
  std::uint64_t compared_with = 0;
  std::optional<SnapshotId> restored_from;  // whose memory its VMM still reads from
  std::int64_t counter = 1;                 // grows with every restore; the guest reads it
  PausePolicy policy;
};

// A checkpoint on the pool, complete.
struct SnapshotRecord {
  std::string sandbox;
  std::uint64_t number = 0;
  std::optional<std::uint64_t> parent;
  Wall created_at{};
  bool quiesced = false;
  bool kept = false;  // asked for by a client; the others serve a pause and go when a newer one is there
  std::int64_t memory_bytes = 0, dirty_bytes = 0, written_bytes = 0, stop_window_us = 0;
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
  // The snapshot and the record that changed with it, in one commit.
  Result<void> add_snapshot(const SnapshotRecord& snapshot, const SandboxRecord* record);
  Result<void> set_wake_at(const std::string& id, std::optional<Wall> wake_at);
  Result<void> erase(const std::string& id);        // also an unknown one; with its snapshots' rows
  Result<std::vector<SnapshotRecord>> snapshots();  // by sandbox and number
  Result<void> erase_snapshot(const SnapshotId& snapshot);

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
