// Capacity: how much memory a node promises to its sandboxes, and when it says no. Pure.
#pragma once

#include <cstdint>

#include "core/shape.h"

namespace space {

// What a VMM needs beside its guest's memory: its own heap, device state, and under TCG translated code.
inline constexpr std::int64_t vmm_overhead_mib = 128;

constexpr std::int64_t memory_cost_mib(const Shape& shape) {
  return shape.memory_mib + vmm_overhead_mib;
}

// The limit of a machine whose operator set none: a tenth is left to the host and its daemons.
constexpr std::int64_t default_memory_limit_mib(std::int64_t total_mib) {
  return total_mib / 10 * 9;
}

// exhausted when the sandbox does not fit beside what is `committed_mib` already; the sentence says what to
// do.
Result<void> admit_memory(const Shape& shape, std::int64_t committed_mib, std::int64_t limit_mib);

}  // namespace space
