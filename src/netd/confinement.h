// What space-netd keeps once it serves. It reads what guests and the internet send.
#pragma once

#include <string>

#include "confine/daemon.h"

namespace space::netd {

// Its folder of what outlives a reboot, and that of its socket and space-noded's.
confine::DaemonProfile confinement(const std::string& state_folder, const std::string& run_folder);

}  // namespace space::netd
