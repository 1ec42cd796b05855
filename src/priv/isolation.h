// What holds a VMM process, read back from the kernel: one reading a layer of the jail, in its order.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "priv/cgroup.h"
#include "priv/jail.h"

namespace space::priv {

struct LayerReading {
  enum class State { active, off, unavailable /* this kernel has none */ };
  std::string layer;
  State state;
  std::string detail;  // what was read, at most 95 bytes
};

struct IsolationSubject {
  pid_t pid;  // still the same process after the reading, or the caller drops it
  std::string id;
  uid_t uid;
  const Cgroups* cgroups;
  Worn worn;
};

// Needs CAP_SYS_PTRACE. Never fails: what cannot be read counts as off, with the reason. Filters of system
// calls are counted above those of the calling process, which its descendants inherit.
std::vector<LayerReading> read_isolation(const IsolationSubject& subject);

// Pure: the value of "Key:\tvalue" in /proc/PID/status, which is empty when there is none.
std::string_view status_value(std::string_view status, std::string_view key);
// Pure: whether each mount of /proc/PID/mountinfo is read-only.
bool all_read_only(std::string_view mountinfo);
// Pure: what a descriptor of a VMM may be, by the target of its link in /proc/PID/fd.
bool is_vmm_descriptor(std::string_view target);

}  // namespace space::priv
