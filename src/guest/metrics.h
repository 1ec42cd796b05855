// GET /metrics: the guest's figures in the form E2B's daemon gives them (api/envd.md).
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "guest/guest_stats.h"

namespace space::guest {

// CPU use is that since the call before, the first time since boot. Belongs to the loop.
class Metrics {
 public:
  Result<JsonObject> read();
  // `uptime`: since boot, standing still while the guest does. Pure but for what it remembers.
  JsonObject describe(const GuestStats& stats, std::chrono::microseconds uptime, Wall now);

 private:
  std::uint64_t cpu_used_us_ = 0;
  std::chrono::microseconds uptime_{0};
  double cpu_used_pct_ = 0;
};

}  // namespace space::guest
