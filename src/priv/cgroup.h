// Control groups, version 1, 2 or both: space/<instance>/<id> in every hierarchy that matters.
// The group is the truth about which processes a sandbox has on the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "priv/mountinfo.h"

namespace space::priv {

struct Hierarchy {
  std::string mount;                               // where it is mounted
  bool unified;                                    // version 2
  bool memory = false, pids = false, cpu = false;  // the controllers we use it for
  bool devices = false;                            // version 1 has it; a jail holds no device nodes anyhow

  bool operator==(const Hierarchy&) const = default;
};

struct CgroupLimits {
  std::uint64_t memory_bytes;
  std::uint64_t pids;
  std::uint64_t cpu_percent;  // 100 = one core
};

// One file to write. Optional ones do not exist on every kernel.
struct CgroupSetting {
  std::string file;
  std::string value;
  bool optional = false;

  bool operator==(const CgroupSetting&) const = default;
};

// Pure. The unified hierarchy, if any, comes first, with or without controllers of its own: it can kill.
Result<std::vector<Hierarchy>> choose_hierarchies(const std::vector<Mount>& mounts,
                                                  std::string_view unified_controllers);
std::vector<CgroupSetting> settings_for(const Hierarchy& hierarchy, const CgroupLimits& limits);
// A group's name for the run directory; refuses what could be mistaken for another's.
Result<std::string> instance_name(std::string_view run);
// The value after `key` in lines of "key value"; 0 when it is not there.
std::uint64_t counter_in(std::string_view text, std::string_view key);

// For kernels without cgroup.kill (before 5.14): kills what the group in `folder` has, again and again,
// because what is not dead yet may fork. internal when something survives.
Result<void> kill_one_by_one(const std::string& folder);

class Cgroups {
 public:
  // Finds the hierarchies of this machine. unavailable when a controller is in none of them.
  static Result<Cgroups> find(std::string_view run);

  Result<void> create(const std::string& id, const CgroupLimits& limits) const;
  // Moves the calling process.
  Result<void> enter(const std::string& id) const;
  // SIGKILL to every process in it, also to those that it forks meanwhile.
  Result<void> kill(const std::string& id) const;
  bool out_of_memory(const std::string& id) const;  // it killed for it at least once
  // Moves the calling process to where supervisors live: beside the sandboxes' groups, without limits, and
  // out of whatever group the daemon is in, which may be killed as a whole.
  Result<void> enter_supervisors() const;
  std::size_t hierarchies() const { return hierarchies_.size(); }
  std::string name_of(const std::string& id) const;  // as /proc/PID/cgroup shows it
  // Success when there is none; conflict while a process is left in it for a second.
  Result<void> remove(const std::string& id) const;
  Result<std::vector<std::string>> ids() const;  // of the sandboxes that have a group
  // Removes the instance's own folders, empty ones only.
  void remove_instance() const;

 private:
  Result<void> make(const std::string& id) const;
  std::string folder(const Hierarchy& hierarchy, std::string_view id) const;

  std::vector<Hierarchy> hierarchies_;
  std::string instance_;
};

}  // namespace space::priv
