// The duties of process 1, in order. Reaping is the process table's.
#pragma once

#include <functional>

#include "base/result.h"

namespace space::guest {

// From the initramfs to a machine programs can run in. An error means there is no disk to run from;
// a missing network is only logged.
Result<void> start_machine();
// Protects the daemon from the kernel's memory killer, raises the limit of open files. Both modes with a VM.
Result<void> protect_daemon();
// Asks every program to end, kills what is left when `quiet` says so or soon after, flushes and powers off or
// reboots. Does not return when it succeeds. Blocks.
void stop_machine(bool reboot, bool is_init, const std::function<bool()>& quiet = [] { return false; });

}  // namespace space::guest
