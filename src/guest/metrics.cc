#include "guest/metrics.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace space::guest {

namespace {

// The kernel counts CPU time in ticks of 10 ms: a shorter time says nothing.
constexpr std::chrono::microseconds shortest_sample{200'000};
constexpr std::uint64_t mib = 1024 * 1024;

}  // namespace

JsonObject Metrics::describe(const GuestStats& stats, std::chrono::microseconds uptime, Wall now) {
  const auto elapsed = uptime - uptime_;
  if (elapsed >= shortest_sample) {
    const double used = double(stats.cpu_used_us) - double(cpu_used_us_);
    const double all = double(elapsed.count()) * double(std::max<std::int64_t>(stats.cpu_count, 1));
    cpu_used_pct_ = std::clamp(std::round(used / all * 10'000) / 100, 0.0, 100.0);
    cpu_used_us_ = stats.cpu_used_us;
    uptime_ = uptime;
  }
  return {{"ts", std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count()},
          {"cpu_count", stats.cpu_count},
          {"cpu_used_pct", cpu_used_pct_},
          {"mem_total", stats.memory_total},
          {"mem_used", stats.memory_used},
          {"mem_cache", stats.memory_cache},
          {"mem_total_mib", stats.memory_total / mib},
          {"mem_used_mib", stats.memory_used / mib},
          {"disk_used", stats.disk_used},
          {"disk_total", stats.disk_total}};
}

Result<JsonObject> Metrics::read() {
  SPACE_TRY(const GuestStats stats, read_guest_stats());
  timespec up{};
  ::clock_gettime(CLOCK_MONOTONIC, &up);
  const auto uptime = std::chrono::seconds(up.tv_sec) + std::chrono::microseconds(up.tv_nsec / 1000);
  return describe(stats, uptime, system_clock().wall());
}

}  // namespace space::guest
