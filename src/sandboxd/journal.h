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
};

class Journal {
 public:
  // `path` is created when missing; an older schema is migrated, a newer one refused.
  static Result<Journal> open(const std::string& path);

  Result<std::vector<SandboxRecord>> sandboxes();
  Result<void> insert(const SandboxRecord& record);  // conflict: the id is there
  Result<void> update(const SandboxRecord& record);  // state, wanted, reason, started_at
  Result<void> set_wake_at(const std::string& id, std::optional<Wall> wake_at);
  Result<void> erase(const std::string& id);  // also an unknown one
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
