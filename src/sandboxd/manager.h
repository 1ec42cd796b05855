// Manager: the table of this node's sandboxes. At its start it compares the journal with what the kernel
// holds and gives every sandbox and every orphan an actor that sets it right.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sandboxd/disk_diff.h"
#include "sandboxd/ksm.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/snapshot_shelf.h"
#include "sandboxd/template_checkpoints.h"
#include "sandboxd/warm_pool.h"

namespace space {

struct CreateRequest {
  std::string id;
  std::int64_t generation = 0;
  std::optional<SnapshotId> from;  // nullopt: from the template
  // With `from` the snapshot's: empty and 0 where they are not named.
  std::string template_digest;
  Shape shape;
  std::string team;
  GuestInit guest_init;
  PausePolicy policy;
  std::optional<SnapshotSchedule> schedule;
  std::optional<RecoveryPolicy> recovery;  // nullopt: the node's default
  Egress egress;
};

class Manager {
 public:
  struct Limits {
    std::int64_t memory_mib = 0;          // promised to sandboxes at most
    bool allow_tcg_multitenant = false;   // core/tenancy.h
    std::int64_t hot_keep_s = 300;        // a paused sandbox stays in memory
    Millis shutdown{60'000};              // in which a planned end keeps what runs
    std::chrono::seconds fork_keep{600};  // how long others may begin from a snapshot made for a fork
    RecoveryPolicy recovery = RecoveryPolicy::disk;  // of sandboxes that name none
  };

  // The journal and what else is referred to outlive the manager; it outlives the loop's tasks.
  Manager(Machine::Host host, Journal& journal, EventLog& events, SandboxLogs& logs, Templates& templates,
          SandboxMeter::Pace pace, Limits limits, WarmPool::Options pool, KsmSwitch ksm = KsmSwitch());

  // Before anything else. Waits for the node manager.
  Task<Result<void>> reconcile(Deadline deadline);
  // Afterwards, once the accelerator is known: checkpoints of templates, and the pool, for ever.
  Task<void> keep_pool(MachineAccelerator accelerator);
  // Looks at every network slot again and again, for ever.
  Task<void> watch_slots(Millis pause);
  // Moves the memory of everything that runs to the pool, as far as the time allows; the next reconcile
  // brings it back. `progress` hears how many of how many. Nothing is created any more.
  Task<void> shut_down(std::function<void(std::size_t done, std::size_t all)> progress);

  // The template's checkpoint of its default shape, made where it is not; then it has a pool.
  Task<Result<void>> prepare(std::string digest, MachineAccelerator accelerator);
  Task<void> forget_template(std::string digest);
  WarmPool& pool() { return pool_; }
  SnapshotShelf& shelf() { return shelf_; }
  DiskDiffs& diffs() { return diffs_; }
  // The kind whose pool a published snapshot has. not_found: it has none.
  Result<VmKind> kind_of_published(const SnapshotId& snapshot) const;

  // Idempotent by id and generation: a repetition waits for and answers the first one. A higher generation
  // replaces a failed sandbox; anything else is conflict. exhausted: the node has no memory left to promise;
  // permission_denied: another team is here; unavailable: the host is not fit to run a VM safely. From a
  // snapshot, also not_found: there is none of this team; conflict: nobody can begin from it, or not on this
  // machine; invalid_argument: another template or shape than the snapshot's.
  Task<Result<std::shared_ptr<Sandbox>>> create(CreateRequest request, MachineAccelerator accelerator);
  // Also an unknown one. Past the deadline (Code::deadline) the deletion goes on by itself.
  Task<Result<void>> remove(std::string id, Deadline deadline);

  // nullptr: unknown, or being deleted.
  std::shared_ptr<Sandbox> find(const std::string& id) const;
  std::vector<std::shared_ptr<Sandbox>> list() const;  // ordered by id
  // Also of a sandbox that ended not long ago; nullptr: none.
  std::shared_ptr<SandboxLog> log(const std::string& id) const { return logs_.find(id); }

 private:
  std::shared_ptr<Sandbox> add(SandboxRecord record);
  void apply(const Action& action);
  // manager_create.cc
  Result<SnapshotRecord> snapshot_for(const SnapshotId& id, const std::string& team) const;
  // nullptr: it is to be made.
  Task<Result<std::shared_ptr<Sandbox>>> find_created(std::string id, std::int64_t generation);
  Result<std::shared_ptr<Sandbox>> begin(CreateRequest request, std::optional<VmSource> source,
                                         std::shared_ptr<Machine> parked, MachineAccelerator accelerator);
  void note_fork(const SandboxRecord& child);
  Result<void> admit(const std::string& team, const Shape& shape, MachineAccelerator accelerator) const;
  Result<void> admit_memory_of(const Shape& shape) const;
  Result<void> admit_again(const SandboxRecord& record) const;
  Task<Result<void>> make_room(std::string team, Shape shape, MachineAccelerator accelerator);
  Task<Result<VmSource>> source_of(VmKind kind, MachineAccelerator accelerator);
  std::int64_t committed_mib() const;
  std::set<SnapshotId> sources() const;
  void remove_unknown_snapshots(const KernelHoldings& kernel, const std::vector<SnapshotRecord>& recorded);
  Task<void> remove_snapshot(SnapshotId snapshot);

  Machine::Host host_;
  Journal& journal_;
  EventLog& events_;
  SandboxLogs& logs_;
  SandboxMeter::Pace pace_;
  Limits limits_;
  KsmSwitch ksm_;
  CheckpointDesk desk_;
  Turnstile starts_;
  Templates& templates_;
  TemplateCheckpoints checkpoints_;
  WarmPool pool_;
  SnapshotShelf shelf_;
  DiskDiffs diffs_;
  KernelHoldings held_at_start_;
  bool closing_ = false;
  std::map<std::string, std::shared_ptr<Sandbox>> sandboxes_;
};

}  // namespace space
