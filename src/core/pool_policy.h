// PoolPolicy: how many parked VMs of each kind a node keeps, which one it makes next and which it gives up.
// Pure. A kind is one template in one shape; its pool is full when as many are parked as it was allotted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"

namespace space {

namespace pool_limits {
inline constexpr std::int64_t target_max = 1000;
// What counts as recent; a burst is what came within the shorter span.
inline constexpr Millis demand_window{600'000};
inline constexpr Millis burst_window{60'000};
// A shape that nobody configured is worth a VM of its own once it was asked for this often recently.
inline constexpr std::int64_t demand_worth = 3;
// A burst raises a configured target up to this many times.
inline constexpr std::int64_t burst_factor = 2;
// After a fill that failed: first, and at most, doubling.
inline constexpr Millis retry_first{1'000}, retry_last{60'000};
}  // namespace pool_limits

// When a kind was asked for, whether or not one was parked.
class PoolDemand {
 public:
  void note(Monotonic now);
  std::int64_t within(Millis span, Monotonic now) const;

 private:
  std::deque<Monotonic> asked_;  // the newest 2 x target_max at most
};

// Of one kind, now.
struct PoolState {
  std::optional<std::int64_t> chosen;  // a target somebody set
  bool offered = false;                // a template's default shape; false: a kind that was only asked for
  std::int64_t recent = 0;             // PoolDemand within demand_window
  std::int64_t burst = 0;              // within burst_window
  std::int64_t parked = 0;             // and nobody's yet
  std::int64_t filling = 0;
  Monotonic retry_at{};  // not filled before
  bool fits = true;      // there is memory for one more
};

struct PoolOptions {
  std::int64_t target = 0;  // of each template's default shape; 0: only what was chosen
  std::int64_t max = 64;    // parked VMs of all kinds together
};

// What a kind would have if it were alone, 0 to target_max.
std::int64_t wanted(const PoolState& pool, const PoolOptions& options);

// What each is to have: what it wants, as long as that is max in all; else one after the other gets one,
// those asked for most recently first, until none is left. So no kind waits empty while another has two to
// spare.
std::vector<std::int64_t> allot(std::span<const PoolState> pools, const PoolOptions& options);

// The pool to put the next one into: the emptiest for what it is to have. nullopt: none needs one, or none
// can get one now, or one is being filled (a node fills one at a time), or `busy`: live sandboxes need the
// machine.
std::optional<std::size_t> next_to_fill(std::span<const PoolState> pools, const PoolOptions& options,
                                        bool busy, Monotonic now);

// The pool to take one from that has more than it is to have. nullopt: none.
std::optional<std::size_t> next_surplus(std::span<const PoolState> pools, const PoolOptions& options);

// The pool to take one from so that a sandbox gets its memory: the least asked for, the fullest of those.
// nullopt: nothing is parked.
std::optional<std::size_t> next_to_evict(std::span<const PoolState> pools);

// How long to leave a kind alone whose last `failures` fills failed, one after the other.
Millis retry_pause(std::int64_t failures);

}  // namespace space
