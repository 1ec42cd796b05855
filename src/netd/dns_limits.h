// How much a sandbox may ask. Pure, but for the clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace space::netd {

class TokenBucket {
 public:
  TokenBucket(double per_second, double burst, const Clock& clock)
      : per_second_(per_second), burst_(burst), tokens_(burst), clock_(clock), filled_(clock.monotonic()) {}

  // One token, if there is one.
  bool take();
  void set_rate(double per_second, double burst);

 private:
  void fill();

  double per_second_, burst_, tokens_;
  const Clock& clock_;
  Monotonic filled_;
};

// Names below a wildcard are a way out for data, a few bytes a name: each wildcard rule lets out so many
// different names an hour, and those it let out go on working.
class UniqueNames {
 public:
  static constexpr std::size_t names_an_hour = 1000;
  static constexpr std::size_t max_rules = 1024;  // counted apart; more share one count

  explicit UniqueNames(const Clock& clock) : clock_(clock) {}
  // `rule`: the rule that allows the name, as a verdict has it ("allow *.example.com"). Only "*.…" and "+.…"
  // are counted.
  bool admit(std::string_view rule, std::string_view name);

 private:
  struct Hour {
    Monotonic began;
    std::set<std::uint64_t> names;  // hashes: a clash lets one more out
  };

  const Clock& clock_;
  std::map<std::string, Hour, std::less<>> rules_;
};

}  // namespace space::netd
