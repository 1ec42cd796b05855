// Manager: the table of this node's sandboxes. At its start it compares the journal with what the kernel
// holds and gives every sandbox and every orphan an actor that sets it right.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sandboxd/sandbox.h"

namespace space {

struct CreateRequest {
  std::string id;
  std::int64_t generation = 0;
  std::string template_digest;
  Shape shape;
  GuestInit guest_init;
};

class Manager {
 public:
  // The journal and what else is referred to outlive the manager; it outlives the loop's tasks.
  Manager(Machine::Host host, Journal& journal, EventLog& events, SandboxLogs& logs, SandboxMeter::Pace pace,
          std::int64_t memory_limit_mib);

  // Before anything else. Waits for the node manager.
  Task<Result<void>> reconcile(Deadline deadline);

  // Idempotent by id and generation: a repetition waits for and answers the first one. A higher generation
  // replaces a failed sandbox; anything else is conflict. exhausted: the node has no memory left to promise.
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
  std::int64_t committed_mib() const;  // by every sandbox that has or will have a VMM

  Machine::Host host_;
  Journal& journal_;
  EventLog& events_;
  SandboxLogs& logs_;
  SandboxMeter::Pace pace_;
  std::int64_t memory_limit_mib_;
  std::map<std::string, std::shared_ptr<Sandbox>> sandboxes_;
};

}  // namespace space
