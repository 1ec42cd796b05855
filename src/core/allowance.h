// Allowance: how much of something may be used at a time, on average and at once. Pure: the caller says what
// time it is.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace space {

class Allowance {
 public:
  // Full at first.
  Allowance(double per_second, double at_once) : per_second_(per_second), at_once_(at_once), left_(at_once) {}

  // Takes `amount`, or nothing and false. More than `at_once` is taken as that much.
  bool take(double amount, Monotonic now) {
    const double waited_s = std::chrono::duration<double>(now - last_).count();
    if (last_ != Monotonic()) left_ = std::min(at_once_, left_ + std::max(waited_s, 0.0) * per_second_);
    last_ = now;
    amount = std::min(amount, at_once_);
    if (amount > left_) return false;
    left_ -= amount;
    return true;
  }

 private:
  double per_second_;
  double at_once_;
  double left_;
  Monotonic last_{};
};

}  // namespace space
