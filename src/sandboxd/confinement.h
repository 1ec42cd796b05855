// What space-sandboxd keeps once it serves. It talks to guests' daemons and to QEMU, both hostile.
#pragma once

#include <string>

#include "confine/daemon.h"

namespace space {

// Its own folders, of what outlives a reboot and of sockets.
confine::DaemonProfile sandboxd_confinement(const std::string& state_folder, const std::string& run_folder);

}  // namespace space
