// When a life ends. Pure.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace space::control {

// The end of a sandbox that never ends by itself: 9999-12-31T23:59:59Z.
inline constexpr Wall never_ends{std::chrono::seconds(253'402'300'799)};
// A timeout that reaches it from any day.
inline constexpr std::int64_t never_s = 253'402'300'799;

// Saturates.
constexpr Wall end_after(Wall from, std::int64_t timeout_s) {
  return std::min(never_ends, from + std::chrono::seconds(std::clamp<std::int64_t>(timeout_s, 0, never_s)));
}

}  // namespace space::control
