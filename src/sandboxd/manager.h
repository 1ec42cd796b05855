// Manager: the table of this node's sandboxes. At its start it compares the journal with what the kernel
// holds and gives every sandbox and every orphan an actor that sets it right.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sandboxd/ksm.h"
#include "sandboxd/sandbox.h"

namespace space {

struct CreateRequest {
  std::string id;
  std::int64_t generation = 0;
  std::string template_digest;
  Shape shape;
  std::string team;
  GuestInit guest_init;
};

class Manager {
 public:
  struct Limits {
    std::int64_t memory_mib = 0;         // promised to sandboxes at most
    bool allow_tcg_multitenant = false;  // core/tenancy.h
  };

  // The journal and what else is referred to outlive the manager; it outlives the loop's tasks.
  Manager(Machine::Host host, Journal& journal, EventLog& events, SandboxLogs& logs, SandboxMeter::Pace pace,
          Limits limits, KsmSwitch ksm = KsmSwitch());

  // Before anything else. Waits for the node manager.
  Task<Result<void>> reconcile(Deadline deadline);

  // Idempotent by id and generation: a repetition waits for and answers the first one. A higher generation
  // replaces a failed sandbox; anything else is conflict. exhausted: the node has no memory left to promise;
  // permission_denied: another team is here; unavailable: the host is not fit to run a VM safely.
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
  Result<void> admit(const CreateRequest& request, MachineAccelerator accelerator) const;

  Machine::Host host_;
  Journal& journal_;
  EventLog& events_;
  SandboxLogs& logs_;
  SandboxMeter::Pace pace_;
  Limits limits_;
  KsmSwitch ksm_;
  std::map<std::string, std::shared_ptr<Sandbox>> sandboxes_;
};

}  // namespace space
