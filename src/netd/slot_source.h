// SlotSource: where the sockets of network slots come from. space-noded's, or a test's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/task.h"
#include "netd/sandbox_gate.h"

namespace space::netd {

class SlotSource {
 public:
  virtual ~SlotSource() = default;
  virtual Task<Result<std::vector<std::string>>> list(Deadline deadline) = 0;  // ids of sandboxes with a slot
  // conflict: those that were given out before are still open; not_found: no such slot.
  virtual Task<Result<SlotSockets>> open(std::string id, Deadline deadline) = 0;
};

// The verbs `list` and `slot_open` of api/noded.h. A call whose connection breaks is sent again until its
// deadline.
std::unique_ptr<SlotSource> make_noded_slots(const Executor& executor, std::string socket_path);

}  // namespace space::netd
