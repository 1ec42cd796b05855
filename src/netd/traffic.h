// Traffic: what the flows of one sandbox may move together, and what they moved. Pure; the caller knows the
// time. Belongs to the sandbox's loop.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace space::netd {

// Bytes that may pass at a rate, with up to a second's worth at once. A rate of 0 is no limit.
class Pace {
 public:
  void set(std::uint64_t bytes_per_s, Monotonic now);
  // They passed; how long to wait before more.
  Millis passed(std::uint64_t bytes, Monotonic now);

 private:
  std::uint64_t bytes_per_s_ = 0;
  double tokens_ = 0;
  Monotonic filled_{};
};

struct TrafficLimits {
  std::uint64_t bytes_per_s = 0;  // each way; 0: none
  std::uint64_t bytes_total = 0;  // since the gateway started; 0: none
};

class Traffic {
 public:
  void set_limits(TrafficLimits limits, Monotonic now);

  // How long the flow that moved them has to wait before it moves more.
  Millis moved(bool to_guest, std::uint64_t bytes, Monotonic now);
  bool quota_used_up() const { return limits_.bytes_total != 0 && in_ + out_ >= limits_.bytes_total; }

  std::uint64_t bytes_in() const { return in_; }  // to the guest
  std::uint64_t bytes_out() const { return out_; }

  // Bytes that were read and wait because the other side does not take them.
  std::uint64_t waiting = 0;

 private:
  TrafficLimits limits_;
  Pace to_guest_;
  Pace from_guest_;
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
};

}  // namespace space::netd
