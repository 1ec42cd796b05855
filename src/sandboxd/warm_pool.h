// WarmPool: VMs that were restored, told who they are, used once and stopped, waiting to become somebody's
// sandbox. A create binds one in milliseconds.
//
// Those of a template's checkpoint have been used once. Those of a published snapshot hold somebody's
// programs: nothing of them runs before the VM is bound.
//
// They are in this process's memory only: after its end the next one finds orphans and removes them.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/json.h"
#include "core/pool_policy.h"
#include "sandboxd/turnstile.h"
#include "sandboxd/vm_source.h"

namespace space {

class WarmPool {
 public:
  using Options = PoolOptions;
  // All outlive it.
  struct Parts {
    Machine::Host host;
    Turnstile& starts;
    // Made where it can be, which takes as long as a boot. An error: nothing is parked of it now.
    std::function<Task<Result<VmSource>>(VmKind, MachineAccelerator)> source;
    std::function<bool(const VmKind&)> has_source;    // without making it
    std::function<Result<void>(const Shape&)> admit;  // is there memory for one more?
    std::function<bool()> busy;                       // live sandboxes need the machine now
  };
  WarmPool(Parts parts, Options options);

  // Refills for ever.
  Task<void> run(MachineAccelerator accelerator);

  // The id of a parked VM, for this caller alone for 30 s; nullopt: none, which is counted too.
  std::optional<std::string> take(const VmKind& kind);
  // The VM that was taken, to become a sandbox; nullptr: it is not here, and nothing is left of one that was.
  Task<std::shared_ptr<Machine>> claim(std::string id, VmKind kind);
  // A claimed one that became nobody's.
  void discard(std::string id, std::shared_ptr<Machine> machine);
  // A template that creates will ask for, with its default shape.
  void offer(const VmKind& kind);
  // nullopt: as configured.
  Result<void> set_target(const std::string& template_digest, std::optional<std::int64_t> target);
  // Ends all of a template (nothing more is parked of it), or one to make room. False: there was none.
  Task<void> drain(std::string template_digest);
  Task<void> drain_snapshot(SnapshotId snapshot);
  Task<bool> evict_one();
  // Ends all, and returns when that is done or takes too long; nothing is parked any more.
  Task<void> close();

  JsonArray list() const;
  std::int64_t committed_mib() const;
  std::set<SnapshotId> sources() const;  // that parked VMs read from, or one is being made from

 private:
  struct Parked {
    std::string id;
    std::shared_ptr<Machine> machine;
    SnapshotId source;
    std::optional<Monotonic> taken_at;

    bool reserved(Monotonic now) const;  // for who took it
  };
  struct Kind {
    std::optional<std::int64_t> target;  // chosen by somebody
    bool offered = false;
    std::list<Parked> parked;
    std::int64_t filling = 0;
    std::uint64_t hits = 0, misses = 0;
    PoolDemand demand;
    std::int64_t failures = 0;  // of fills, one after the other
    Monotonic retry_at{};
  };

  // In the order of kinds_, as the policy's indices.
  std::vector<PoolState> states() const;
  PoolState state_of(const VmKind& key, const Kind& kind, Monotonic now) const;
  PoolOptions options() const;
  std::int64_t total() const;
  std::map<VmKind, Kind>::iterator kind_at(std::size_t index);
  std::optional<VmKind> next_to_fill() const;
  void forget_unused();
  Task<Result<Parked>> fill(VmKind kind, MachineAccelerator accelerator);
  Task<Result<void>> ready(std::shared_ptr<Machine> machine, bool of_snapshot);
  Task<void> drain_kinds(std::function<bool(const VmKind&)> which);
  Task<void> end(Parked parked);
  Task<void> end_all(std::list<Parked> ending);
  Task<void> trim();

  Parts parts_;
  Options options_;
  std::map<VmKind, Kind> kinds_;
  std::set<std::string> ending_;            // ids of those being removed
  std::optional<SnapshotId> filling_from_;  // somebody's snapshot
  bool closed_ = false;
  Event changed_;
};

}  // namespace space
