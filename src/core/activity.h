// Activity: whether a sandbox is in use, and for how long it has not been. Pure.
//
// In use is what calls it, streams to it, moves bytes, holds a lease, or computes: a build that nobody
// watches counts as much as a terminal. The meter is told what happened and when; times never run backwards.
// Times and counts that come out of a guest may be anything: the worst a guest can do is keep itself in use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace space {

enum class ActiveReason : std::uint8_t { call, stream, traffic, lease, cpu };
std::string_view to_string(ActiveReason reason);

namespace activity_limits {
// More than this of one core, 1 %, is work.
inline constexpr std::uint64_t busy_us_per_s = 10'000;
// The shortest span a share is taken over: one 4 ms tick of the scheduler is 0.08 % of it.
inline constexpr Millis cpu_window{5'000};
// How long a moment's use is still given as a reason: two of the fastest samples, so that none falls between.
inline constexpr Millis recent{10'000};
// The longest lease, also believed of a guest.
inline constexpr Millis lease_max{86'400'000};
}  // namespace activity_limits

class ActivityMeter {
 public:
  // A meter starts in use: nobody knows what was before.
  explicit ActivityMeter(Monotonic now) : last_(now) {}

  void note_call(Monotonic now) { note(ActiveReason::call, now); }
  void stream_opened(Monotonic now);
  void stream_closed(Monotonic now);
  void note_traffic(Monotonic now) { note(ActiveReason::traffic, now); }
  // What the user cgroup has used since its boot. A count that fell is a new beginning.
  void note_cpu(Monotonic now, std::uint64_t used_us);
  // The longest of the leases now held ends then; nullopt: none is held.
  void note_leases(Monotonic now, std::optional<Monotonic> until);
  // The sandbox ran on after a pause: its idle time starts anew, and what the guest counts may have changed.
  void note_resumed(Monotonic now);

  Monotonic last_active(Monotonic now) const;
  Millis idle_for(Monotonic now) const;  // 0 while a stream is open or a lease held
  // What kept it in use in the last `recent`, in the order of the enum. Empty: it is idle.
  std::vector<ActiveReason> reasons(Monotonic now) const;

 private:
  static constexpr std::size_t reasons_count = 5;
  void note(ActiveReason reason, Monotonic now);
  // When `reason` was last true.
  std::optional<Monotonic> moment(ActiveReason reason, Monotonic now) const;

  struct CpuSample {
    Monotonic at;
    std::uint64_t used_us;
  };
  Monotonic last_;  // never goes back
  std::optional<Monotonic> moments_[reasons_count];
  std::uint64_t streams_ = 0;
  std::optional<Monotonic> leased_until_;
  std::optional<CpuSample> cpu_base_;
};

}  // namespace space
