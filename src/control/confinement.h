// What space-control keeps once its doors are open. It parses the internet.
#pragma once

#include <string>

#include "confine/daemon.h"

namespace space::control {

// `state_folder`: where its database and its first API key are.
confine::DaemonProfile confinement(const std::string& state_folder);

}  // namespace space::control
