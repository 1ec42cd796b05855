// The node's session with one replica of the control plane: dials, serves, dials again. Never ends by itself.
#pragma once

#include <string>

#include "net/h2_session.h"

namespace space {

// Sandboxes do not depend on it: without a control plane they run on.
Task<void> serve_control(std::string socket_path, H2Handlers handlers);

}  // namespace space
