// The jail of a VMM process: layers, put on in one order by the process itself between fork and exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "priv/cgroup.h"

namespace space::priv {

struct JailSpec {
  const Cgroups* cgroups;
  std::string id;                // of its control group
  uid_t uid;                     // and gid
  std::uint64_t processes_max;   // threads included
  std::uint64_t file_bytes_max;  // the largest file it may write
};

struct JailLayer {
  const char* name;
  Result<void> (*put_on)(const JailSpec& spec);
};

// In the order in which they are put on: each needs a power that a later one takes away.
std::span<const JailLayer> jail_layers();

// All of them. When it returns an error the process must end at once: it may be half in.
Result<void> enter_jail(const JailSpec& spec);

// Also for the supervisor: every capability goes for good, except those in `kept`.
Result<void> keep_capabilities(std::initializer_list<int> kept);

}  // namespace space::priv
