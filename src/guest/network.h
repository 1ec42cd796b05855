// The guest's network: the same addresses in every sandbox, each in a network namespace of its own on the
// host.
#pragma once

#include "base/result.h"

namespace space::guest {

Result<void> bring_up_loopback();
// eth0 with 10.77.0.2/30 and fd53:5041:4345::2/126, default routes to the first address of each.
Result<void> bring_up_ethernet();

}  // namespace space::guest
