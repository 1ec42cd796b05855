// Landlock: which files a process may still reach, whoever it is. Rules are on what a path leads to when the
// rule is made. Every kind of access that this kernel can handle is refused unless a rule grants it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace space::confine {

enum class Reach {
  read,     // files and folders below it
  execute,  // read, and run what is there
  write,    // read, and make, change and remove what is there
};

struct LandlockRule {
  std::string path;  // of a file or a folder
  Reach reach;
  int fd = -1;  // instead of the path: what is open there, the caller's
};

// 0: this kernel has none, or it is switched off. Debian 12's own kernel has 2, ioctl on devices came with 5,
// TCP ports with 4, signals and abstract sockets with 6.
int landlock_abi();

struct LandlockLimits {
  std::vector<LandlockRule> rules;
  bool forbid_tcp = true;      // bind and connect, from ABI 4
  bool forbid_signals = true;  // to processes outside, and their abstract unix sockets, from ABI 6
};
// For the calling thread and all it will start, for good. Needs no_new_privs or CAP_SYS_ADMIN. A path that is
// not there is an error. unavailable when the kernel has no Landlock.
Result<void> restrict_by_landlock(const LandlockLimits& limits);

}  // namespace space::confine
