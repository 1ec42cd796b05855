// SandboxMeter: what one sandbox does and costs. Counts what passes the node by itself (streams, bytes,
// calls), asks the guest rarely, and never twice at a time: a silent guest is not asked at all.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/activity.h"
#include "net/stream.h"
#include "sandboxd/guest_sample.h"

namespace space {

class SandboxMeter : public std::enable_shared_from_this<SandboxMeter> {
 public:
  struct Pace {
    Millis rare{30'000};       // between two samples; each a fifth shorter or longer, by chance
    Millis eager{5'000};       // while somebody looks
    Millis eager_for{30'000};  // after a look
    Millis fresh{5'000};       // a sample this young is not repeated
    Millis answer_limit{5'000};
  };
  struct Hooks {
    std::function<Task<Result<JsonObject>>(std::string call, Deadline deadline)> ask;
    std::function<bool()> answers;  // false: the guest is silent or away
    std::function<pid_t()> vmm_pid;
    std::function<void()> tick;  // before every sample, also of a silent guest
    std::function<void(std::optional<Wall>)> wake_at_changed;
  };

  SandboxMeter(Executor executor, Hooks hooks, Pace pace, std::optional<Wall> wake_at);

  // Samples from now on, until close(). No hook is called after that.
  void keep();
  void close();

  void note_call() { activity_.note_call(system_clock().monotonic()); }
  void note_resumed() { activity_.note_resumed(system_clock().monotonic()); }
  Millis idle_for() const { return activity_.idle_for(system_clock().monotonic()); }
  // Resets every stream into the guest: whoever reads one learns at once that nothing more comes.
  void cut_streams();
  // The stream, counted while it lives and for every byte through it. `guest`: our end of a tunnel into it.
  StreamPtr metered(StreamPtr guest);

  // Somebody looks: a sample is under way if the last one is not fresh, and more follow sooner than else.
  void look();
  // Has a sample no older than `fresh` taken if there is none. False: there is none by the deadline.
  Task<bool> refresh(Deadline deadline);
  // Asks the guest for its activity now, however fresh the last answer is. False: it did not answer.
  Task<bool> sample_now(Deadline deadline);
  // Of the guest's user programs since its boot, as it said last.
  std::optional<std::uint64_t> cpu_used_us() const {
    return latest_ ? std::optional(latest_->activity.cpu_used_us) : std::nullopt;
  }
  // As in api/node-rpc.md: what the guest said last if it ever did, the VMM's cost, `activity`.
  JsonObject stats() const;
  JsonObject activity() const;

 private:
  class MeteredStream;
  struct Sample {
    Monotonic at{};
    Wall wall{};
    GuestActivity activity;
  };

  struct CpuBase {
    Monotonic at{};
    std::uint64_t used_us = 0;
  };

  Task<void> keep_sampling();
  Task<void> sample(std::string call);
  void begin_sample(std::string call);
  Result<void> take(const std::string& call, const JsonObject& answer);
  void take_activity(GuestActivity activity, Monotonic now);
  void measure_cpu(std::uint64_t used_us, Monotonic now);
  bool fresh() const;
  bool eager() const;
  Millis pause() const;

  Executor executor_;
  Hooks hooks_;
  Pace pace_;
  ActivityMeter activity_;
  std::set<MeteredStream*> streams_;  // those that are open
  std::uint64_t bytes_in_ = 0;        // to the guest
  std::uint64_t bytes_out_ = 0;
  std::optional<Sample> latest_;
  std::optional<CpuBase> cpu_base_;
  std::optional<double> cpu_used_pct_;  // of one core, by the user cgroup, between the last two samples
  std::optional<GuestStats> guest_stats_;
  Monotonic guest_stats_at_{};
  Wall guest_stats_wall_{};
  std::optional<Wall> wake_at_;
  std::optional<Monotonic> looked_at_;
  bool sampling_ = false;
  bool stats_under_way_ = false;
  bool closed_ = false;
  Event sampled_;
  Event wake_;
};

}  // namespace space
