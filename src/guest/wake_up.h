// WakeUp: when the sandbox wants to run again although it may sleep by then. Pure.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/result.h"

namespace space::guest {

class WakeUp {
 public:
  static constexpr std::chrono::days time_max{366};

  // One time; a new one replaces it. invalid_argument: past, or further away than time_max.
  Result<void> set(Wall at, Wall now) {
    if (at <= now || at > now + time_max)
      return fail(Code::invalid_argument, "a wake-up lies in the future, at most {} days away",
                  time_max.count());
    at_ = at;
    return {};
  }
  void clear() { at_.reset(); }
  // nullopt: none, or it has come.
  std::optional<Wall> at(Wall now) const { return at_ && *at_ > now ? at_ : std::nullopt; }

 private:
  std::optional<Wall> at_;
};

}  // namespace space::guest
