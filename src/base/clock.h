// Clock: the only source of time for code that decides. Two kinds of time, never mixed:
// monotonic (for deadlines and durations) and wall (for what people see and what is stored).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace space {

using Monotonic = std::chrono::steady_clock::time_point;
using Wall = std::chrono::sys_time<std::chrono::milliseconds>;
using Millis = std::chrono::milliseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Monotonic monotonic() const = 0;
  virtual Wall wall() const = 0;
};

// The machine's clock.
const Clock& system_clock();

// A clock that moves only when told. For tests.
class FakeClock final : public Clock {
 public:
  Monotonic monotonic() const override { return monotonic_; }
  Wall wall() const override { return wall_; }
  void advance(Millis by) {
    monotonic_ += by;
    wall_ += by;
  }

 private:
  Monotonic monotonic_{std::chrono::hours(1)};
  Wall wall_{std::chrono::milliseconds(1'700'000'000'000)};
};

std::string to_rfc3339(Wall time);  // 2026-11-29T22:28:10.123Z
// Any offset and any number of decimals (cut to milliseconds); nullopt for anything else or a date that is
// none.
std::optional<Wall> parse_rfc3339(std::string_view text);

}  // namespace space
