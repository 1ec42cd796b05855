// Gateway: all sandboxes' gates, spread over the loops; what api/netd-rpc.md can ask of them. Belongs to the
// first loop, and hops to a gate's for what concerns it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netd/loop_parts.h"
#include "netd/policy_files.h"
#include "netd/sandbox_gate.h"
#include "netd/slot_source.h"

namespace space::netd {

struct GateStatus {
  std::string id;
  std::uint64_t generation = 0;
  bool attached = false;
  std::size_t flows = 0;
};

struct GateStats {
  std::size_t flows = 0;
  GateCounters counters;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

// What a connection of the guest would meet.
struct TestQuestion {
  Host host;
  std::uint16_t port = 0;
  EgressProtocol protocol = EgressProtocol::any;
  std::string path;  // of a plain HTTP request; "" otherwise
};
struct TestAnswer {
  EgressVerdict verdict;
  std::vector<std::string> addresses;
  std::uint64_t generation = 0;
};

class Gateway {
 public:
  // All outlive it. At least one loop; the first is the gateway's own.
  struct Parts {
    std::vector<LoopParts*> loops;
    SlotSource& slots;
    PolicyFiles& files;
  };
  explicit Gateway(Parts parts) : parts_(std::move(parts)) {}

  // What the policies on the disk say holds for every slot there is; waits for the node manager.
  Task<void> recover();

  Task<Result<void>> attach(std::string id, StoredPolicy stored, std::optional<std::string> pins_of);
  Task<Result<std::size_t>> set_policy(std::string id, StoredPolicy stored);  // how many flows were cut
  Task<Result<void>> detach(std::string id);
  Task<Result<void>> forget(std::string id);
  Task<std::vector<GateStatus>> list();
  Task<Result<TestAnswer>> test(std::string id, TestQuestion question);
  Task<Result<EgressLog::Page>> log(std::string id, std::uint64_t after, std::size_t limit, Deadline wait);
  Task<Result<GateStats>> stats(std::string id);

  // The node's own addresses and what the operator denies are these from now on.
  Task<void> set_platform(std::shared_ptr<const PlatformDeny> platform);

  // For every policy there is.
  static EgressRights rights() { return {.may_internal = true, .force = true}; }

 private:
  struct Entry {
    std::shared_ptr<SandboxGate> gate;
    StoredPolicy stored;  // in force
  };
  class Turn;

  Task<Turn> turn(std::string id);
  Entry* find(const std::string& id);
  LoopParts& least_used_loop();
  Task<Result<std::size_t>> enforce(std::string id, StoredPolicy stored);
  Task<Result<void>> open_slot(std::string id);
  Task<void> recover_one(std::string id, StoredPolicy stored);

  Parts parts_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::shared_ptr<Event>> turns_;  // of ids with a call under way
};

}  // namespace space::netd
