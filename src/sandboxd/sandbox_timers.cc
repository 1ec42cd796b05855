// What a Sandbox does by itself, and when: it pauses where nothing happens, moves a paused one's memory to
// the pool, and wakes.
#include <algorithm>

#include "base/log.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Until what failed by itself is tried again.
constexpr Millis retry_after = 30s;
constexpr Millis retry_recovery = 2s;  // somebody waits for it
constexpr Millis sample_limit = 6s;
// Between two looks: the shortest span in which a share of CPU is taken, and a little more.
constexpr Millis idle_look = activity_limits::cpu_window + Millis(200);

}  // namespace

bool Sandbox::idle_due() const {
  return serves(record_.state) && record_.policy.idle_pause_s &&
         meter_->idle_for() >= std::chrono::seconds(*record_.policy.idle_pause_s);
}

bool Sandbox::cold_due() const {
  const Millis keep = std::chrono::seconds(record_.policy.hot_keep_s.value_or(node_.hot_keep_s));
  return rests(record_.state) && record_.memory == MemoryPlace::vmm &&
         system_clock().monotonic() - paused_at_ >= keep;
}

bool Sandbox::wake_due() const {
  if (!rests(record_.state) || !record_.idle || record_.memory == MemoryPlace::none || closing_) return false;
  if (record_.wanted == Wanted::running) return true;  // kept for this restart
  return record_.wake_at && *record_.wake_at <= system_clock().wall();
}

std::optional<Monotonic> Sandbox::next_due() const {
  const Monotonic now = system_clock().monotonic();
  std::optional<Monotonic> due;
  if (closing_) return due;  // what was kept for the next start stays so
  const auto at = [&](Monotonic moment) {
    moment = std::max(moment, retry_at_);
    if (!due || moment < *due) due = moment;
  };
  if (serves(record_.state) && record_.policy.idle_pause_s)
    at(now + std::max(Millis(0),
                      std::chrono::duration_cast<Millis>(std::chrono::seconds(*record_.policy.idle_pause_s)) -
                          meter_->idle_for()));
  if (rests(record_.state) && record_.memory == MemoryPlace::vmm)
    at(paused_at_ + std::chrono::seconds(record_.policy.hot_keep_s.value_or(node_.hot_keep_s)));
  if (rests(record_.state) && record_.idle && record_.wanted == Wanted::running) at(now);
  if (recovers(record_.state) && !awaits_init_) at(now);
  if (const auto scheduled = next_scheduled()) at(*scheduled);
  if (rests(record_.state) && record_.idle && record_.wake_at)
    at(now +
       std::max(Millis(0), std::chrono::duration_cast<Millis>(*record_.wake_at - system_clock().wall())));
  return due;
}

// Work that shows in its CPU only is seen between two samples: the first begins the wait, the second ends it.
// A guest that does not answer them is no idle one.
Task<Result<void>> Sandbox::pause_if_idle() {
  const Monotonic now = system_clock().monotonic();
  const bool looked =
      idle_look_at_ && *idle_look_at_ > now - 2 * idle_look && *idle_look_at_ <= now - idle_look;
  const bool sampled = co_await meter_->sample_now(Deadline::after(sample_limit));
  if (!sampled || !looked) {
    if (!looked) idle_look_at_ = system_clock().monotonic();
    retry_at_ = system_clock().monotonic() + idle_look;
    co_return Result<void>();
  }
  idle_look_at_.reset();
  if (!idle_due() || order_ || being_deleted()) co_return Result<void>();
  co_return co_await do_pause(true);
}

Task<void> Sandbox::do_due() {
  const auto due = next_due();
  if (!due) {
    co_await changed_.wait();
    co_return;
  }
  if (system_clock().monotonic() < *due) {
    co_await changed_.wait(Deadline::at(*due));
    co_return;
  }
  Result<void> done;
  if (recovers(record_.state)) {
    done = co_await do_recover();
  } else if (wake_due()) {
    done = co_await do_resume({});
  } else if (cold_due()) {
    done = co_await go_cold();
  } else if (idle_due()) {
    done = co_await pause_if_idle();
  } else if (const auto kind = scheduled_kind_due()) {
    done = co_await take_scheduled(*kind);
  } else if (retention_due()) {
    done = co_await apply_retention();
  }
  if (!done) {
    retry_at_ = system_clock().monotonic() + (recovers(record_.state) ? retry_recovery : retry_after);
    log::warn("what was due failed", {{"sandbox", record_.id}, log::Field(done.error())});
  }
}

}  // namespace space
