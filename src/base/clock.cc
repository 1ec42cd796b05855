#include "base/clock.h"

#include <fmt/core.h>

namespace space {

namespace {
class SystemClock final : public Clock {
 public:
  Monotonic monotonic() const override { return std::chrono::steady_clock::now(); }
  Wall wall() const override {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
};
}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

std::string to_rfc3339(Wall time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time_of_day(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time_of_day.hours().count(), time_of_day.minutes().count(),
                     time_of_day.seconds().count(), time_of_day.subseconds().count());
}

}  // namespace space
