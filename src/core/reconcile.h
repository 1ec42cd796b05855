// Reconcile: compares what a node wrote down with what its kernel really holds and says what to do. Pure.
//
// Run at every start of the sandbox manager; a crash is thus no special case. Never touched: a sandbox whose
// VMM runs and that nobody asked to delete.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/lifecycle.h"
#include "core/recovery.h"

namespace space {

// A line of the journal, as far as it matters here.
struct Recorded {
  State state = State::creating;
  Wanted wanted = Wanted::running;
  MemoryPlace memory = MemoryPlace::vmm;
  RecoveryPolicy recovery = RecoveryPolicy::disk;
};

// What the kernel holds of one sandbox.
struct Holdings {
  bool disk = false;
  bool slot = false;
  bool vmm = false;       // a VMM process is alive
  bool vmm_exit = false;  // a dead VMM's record and cgroup
  bool any() const { return disk || slot || vmm || vmm_exit; }
};

enum class Remedy : unsigned char {
  adopt,             // goes on as it is
  finish_deletion,   // remove what is left, then forget it
  release_vmm,       // end and remove what is left of its VMM; disk and snapshots stay
  recover,           // its VMM died: by its policy, from its disk or a snapshot
  mark_failed,       // with the cause, then remove what is left; the record stays
  remove_leftovers,  // of a failed sandbox
  remove_orphan,     // no record of it
};

struct Action {
  std::string id;
  Remedy remedy;
  std::string_view cause;  // for recover and mark_failed
  bool operator==(const Action&) const = default;
};

// Ordered by id, at most one action a sandbox; none where record and kernel agree and nothing is under way.
std::vector<Action> reconcile(const std::map<std::string, Recorded>& journal,
                              const std::map<std::string, Holdings>& kernel);

}  // namespace space
