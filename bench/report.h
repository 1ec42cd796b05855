// What a benchmark prints: one JSON object a line, a figure next to the peer measured in the same run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace space::bench {

// Milliseconds since it was made.
class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(system_clock().monotonic() - start_).count();
  }

 private:
  Monotonic start_ = system_clock().monotonic();
};

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  std::size_t size() const { return values_.size(); }
  double percentile(double percent) const;  // nearest rank; 0: the smallest; 0 when empty

 private:
  std::vector<double> values_;
};

// What a figure is compared to: the ratio is that of the medians. `ratio_goal` is what it should reach, of
// figures of which more is better.
struct Peer {
  std::string_view name;
  const Samples& samples;
  std::optional<double> ratio_goal = {};
};

// {"bench","metric","unit","n","min","p50","p90","p99"} and, with a peer, {"peer","peer_p50","ratio"}; `goal`
// is what p50 should not exceed.
void print(std::string_view bench, std::string_view metric, const Samples& samples,
           std::optional<Peer> peer = {}, std::optional<double> goal = {}, std::string_view unit = "ms");
// The machine the figures are of: processors, load average, kernel.
void print_machine(std::string_view bench);

}  // namespace space::bench
