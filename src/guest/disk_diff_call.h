// `diff` (api/channel.md): what differs between the second and the third disk of a machine that exists for
// that alone. They are mounted read only once their journals are replayed, and what they hold is hostile.
#pragma once

#include "base/json.h"
#include "guest/tree_diff.h"

namespace space::guest {

// "limit": changes at most, 1 to 10,000 (1,000 when absent); "time_ms": to 600,000 (60,000).
Result<TreeDiffLimits> parse_diff(const JsonObject& message);
// not_found: there are no such disks. Blocks until limits.until, and a little longer.
Result<TreeDiff> diff_disks(const TreeDiffLimits& limits);
JsonObject to_json(const TreeDiff& diff);

}  // namespace space::guest
