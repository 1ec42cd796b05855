// From the initramfs to the sandbox's own disk, and the mounts a program expects to find.
#pragma once

#include "base/result.h"

namespace space::guest {

// /proc, /sys and /dev, before anything else can be looked at.
Result<void> mount_early();
// Waits for /dev/vda, mounts it, grows the file system to the device, makes it the root and frees the
// initramfs.
Result<void> switch_to_disk();
// /dev/pts, /dev/shm, /run, the cgroup2 hierarchy and the customary links of /dev.
Result<void> mount_late();

}  // namespace space::guest
