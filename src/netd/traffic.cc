#include "netd/traffic.h"

#include <algorithm>

namespace space::netd {

void Pace::set(std::uint64_t bytes_per_s, Monotonic now) {
  if (bytes_per_s == bytes_per_s_) return;
  bytes_per_s_ = bytes_per_s;
  tokens_ = static_cast<double>(bytes_per_s);
  filled_ = now;
}

Millis Pace::passed(std::uint64_t bytes, Monotonic now) {
  if (bytes_per_s_ == 0) return Millis(0);
  const auto rate = static_cast<double>(bytes_per_s_);
  const std::chrono::duration<double> since = now - filled_;
  tokens_ = std::min(rate, tokens_ + since.count() * rate) - static_cast<double>(bytes);
  filled_ = now;
  if (tokens_ >= 0) return Millis(0);
  return std::chrono::ceil<Millis>(std::chrono::duration<double>(-tokens_ / rate));
}

void Traffic::set_limits(TrafficLimits limits, Monotonic now) {
  limits_ = limits;
  to_guest_.set(limits.bytes_per_s, now);
  from_guest_.set(limits.bytes_per_s, now);
}

Millis Traffic::moved(bool to_guest, std::uint64_t bytes, Monotonic now) {
  (to_guest ? in_ : out_) += bytes;
  return (to_guest ? to_guest_ : from_guest_).passed(bytes, now);
}

}  // namespace space::netd
