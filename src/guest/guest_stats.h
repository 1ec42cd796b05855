// Figures of the whole guest for the control call `stats`.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace space::guest {

struct GuestStats {  // bytes unless named otherwise
  std::int64_t cpu_count = 0;
  std::uint64_t cpu_used_us = 0;  // of everything in the guest, since boot
  std::uint64_t memory_total = 0;
  std::uint64_t memory_used = 0;
  std::uint64_t memory_cache = 0;
  std::uint64_t disk_total = 0;
  std::uint64_t disk_used = 0;
};

Result<GuestStats> read_guest_stats();
// Busy time of the first line of /proc/stat, in microseconds, for clock ticks of `ticks_per_second`. Pure.
std::uint64_t busy_time_us(std::string_view proc_stat, long ticks_per_second);

}  // namespace space::guest
