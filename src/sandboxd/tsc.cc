#include "sandboxd/tsc.h"

#include <time.h>
#include <x86intrin.h>

#include <limits>

namespace space {
namespace {

struct Reading {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Both clocks at one instant: of several tries the one with the least time between the two readings of the
// counter.
Reading read_both() {
  Reading best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t before = __rdtsc();
    const std::int64_t ns = monotonic_ns();
    const std::uint64_t width = __rdtsc() - before;
    if (width >= least) continue;
    least = width;
    best = {before + width / 2, ns};
  }
  return best;
}

}  // namespace

std::uint64_t measure_tsc_khz() {
  const Reading first = read_both();
  const timespec pause{0, 50'000'000};
  ::nanosleep(&pause, nullptr);
  const Reading second = read_both();
  const auto ticks = static_cast<double>(second.ticks - first.ticks);
  return static_cast<std::uint64_t>(ticks * 1e6 / static_cast<double>(second.ns - first.ns) + 0.5);
}

}  // namespace space
