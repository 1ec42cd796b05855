// The rate of the host's time stamp counter, which a guest under software emulation reads unchanged and
// cannot calibrate on a busy machine.
#pragma once

#include <cstdint>

namespace space {

// Measured against the monotonic clock, to about one part in a million. Blocks for 50 ms: once, at start.
std::uint64_t measure_tsc_khz();

}  // namespace space
