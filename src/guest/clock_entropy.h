// Time and randomness from the host. Two copies of one snapshot share both until the host renews them.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace space::guest {

// Returns by how much the wall clock was moved, in microseconds.
Result<std::int64_t> set_wall_clock(std::int64_t wall_clock_us);
// Credits `entropy` to the kernel's pool and makes its generator draw from it now: every later
// getrandom() differs from that of any other copy.
Result<void> add_entropy(std::span<const std::byte> entropy);

}  // namespace space::guest
