// What a guest says of itself in answer to the control calls `activity` and `stats` (api/channel.md), read as
// hostile text: every count bounded, every name checked, nothing allocated by its numbers. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace space {

struct GuestLease {
  std::string name;  // 1 to 64 of [A-Za-z0-9._-]
  Millis expires_in{0};
};

struct GuestActivity {
  std::uint64_t cpu_used_us = 0;  // of the user cgroup, since boot
  std::vector<GuestLease> leases;
  std::optional<Wall> wake_at;
};

struct GuestStats {  // bytes unless named otherwise
  std::uint64_t cpu_count = 0;
  std::uint64_t cpu_used_us = 0;  // of everything in the guest, since boot
  std::uint64_t memory_total = 0;
  std::uint64_t memory_used = 0;
  std::uint64_t memory_cache = 0;
  std::uint64_t disk_total = 0;
  std::uint64_t disk_used = 0;
  std::uint64_t processes = 0;  // that clients started and that run
  std::uint64_t tasks = 0;      // threads of the user cgroup
};

// invalid_argument: not what api/channel.md says.
Result<GuestActivity> parse_guest_activity(const JsonObject& answer);
Result<GuestStats> parse_guest_stats(const JsonObject& answer);

}  // namespace space
