// Loop devices.
#pragma once

#include <string>

#include "base/fd.h"

namespace space::priv {

// A block device over a file. The kernel detaches it by itself when nothing has it open or mounted any
// more, so a crash at any point leaves none behind.
struct LoopDevice {
  Fd fd;             // keeps it attached until it is mounted
  std::string path;  // /dev/loopN
};

Result<LoopDevice> attach_loop(const std::string& file);
// After its file system was unmounted: the kernel lets go of the file a moment later. Waits for up to two
// seconds; conflict when something still has it open or mounted.
Result<void> await_detached(const std::string& device, const std::string& file);

}  // namespace space::priv
