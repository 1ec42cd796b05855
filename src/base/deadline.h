// Deadline: the instant after which nobody waits any more. Travels down the calls by value,
// so that a chain of waits shares one budget instead of adding up its own.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace space {

class Deadline {
 public:
  static Deadline after(Millis duration, const Clock& clock = system_clock()) {
    return Deadline(clock.monotonic() + duration);
  }
  static Deadline at(Monotonic when) { return Deadline(when); }

  Monotonic when() const { return when_; }
  bool passed(const Clock& clock = system_clock()) const { return clock.monotonic() >= when_; }
  // Zero when passed.
  Millis left(const Clock& clock = system_clock()) const {
    return std::max(Millis(0), std::chrono::duration_cast<Millis>(when_ - clock.monotonic()));
  }
  // The earlier of this and `duration` from now.
  Deadline at_most(Millis duration, const Clock& clock = system_clock()) const {
    return Deadline(std::min(when_, clock.monotonic() + duration));
  }

 private:
  explicit Deadline(Monotonic when) : when_(when) {}
  Monotonic when_;
};

}  // namespace space
