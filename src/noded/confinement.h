// What space-noded gives up once it serves: every capability that no verb needs, every system call that
// neither a verb nor a VMM makes, running any program but a VMM's, and being traced.
#pragma once

#include "base/result.h"

namespace space::noded {

// For this process and its workers, for good. After it has opened the pool and run what it needs to run.
Result<void> confine_noded();

}  // namespace space::noded
