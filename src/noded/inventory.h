// What the kernel really holds: read from the pool, the mounts, the records and /proc, never from memory.
#pragma once

#include <vector>

#include "api/noded.h"
#include "base/result.h"
#include "priv/layout.h"
#include "priv/pool.h"

namespace space::noded {

Result<std::vector<ListRecord>> take_inventory(const priv::Layout& layout, const priv::Pool& pool);

}  // namespace space::noded
