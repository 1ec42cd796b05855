#include "core/activity.h"

#include <algorithm>
#include <utility>

namespace space {

using namespace activity_limits;

std::string_view to_string(ActiveReason reason) {
  switch (reason) {
    case ActiveReason::call:
      return "call";
    case ActiveReason::stream:
      return "stream";
    case ActiveReason::traffic:
      return "traffic";
    case ActiveReason::lease:
      return "lease";
    case ActiveReason::cpu:
      return "cpu";
  }
  std::unreachable();
}

void ActivityMeter::note(ActiveReason reason, Monotonic now) {
  auto& moment = moments_[std::to_underlying(reason)];
  moment = moment ? std::max(*moment, now) : now;
  last_ = std::max(last_, now);
}

void ActivityMeter::stream_opened(Monotonic now) {
  ++streams_;
  note(ActiveReason::stream, now);
}

void ActivityMeter::stream_closed(Monotonic now) {
  if (streams_ > 0) --streams_;
  note(ActiveReason::stream, now);
}

void ActivityMeter::note_cpu(Monotonic now, std::uint64_t used_us) {
  if (!cpu_base_ || used_us < cpu_base_->used_us) {
    cpu_base_ = CpuSample{now, used_us};
    return;
  }
  const auto span = std::chrono::duration_cast<Millis>(now - cpu_base_->at);
  if (span < cpu_window) return;
  const auto allowed_us = static_cast<std::uint64_t>(span.count()) * busy_us_per_s / 1000;
  if (used_us - cpu_base_->used_us > allowed_us) note(ActiveReason::cpu, now);
  cpu_base_ = CpuSample{now, used_us};
}

void ActivityMeter::note_leases(Monotonic now, std::optional<Monotonic> until) {
  // A lease that is gone was held until now at the latest, or ran out before.
  if (leased_until_) note(ActiveReason::lease, std::min(now, *leased_until_));
  leased_until_ = until && *until > now ? std::optional(std::min(*until, now + lease_max)) : std::nullopt;
  if (leased_until_) note(ActiveReason::lease, now);
}

void ActivityMeter::note_resumed(Monotonic now) {
  last_ = std::max(last_, now);
  cpu_base_.reset();
}

std::optional<Monotonic> ActivityMeter::moment(ActiveReason reason, Monotonic now) const {
  if (reason == ActiveReason::stream && streams_ > 0) return now;
  if (reason == ActiveReason::lease && leased_until_) return std::min(now, *leased_until_);
  return moments_[std::to_underlying(reason)];
}

Monotonic ActivityMeter::last_active(Monotonic now) const {
  Monotonic last = last_;
  for (const ActiveReason held : {ActiveReason::stream, ActiveReason::lease})
    last = std::max(last, moment(held, now).value_or(last));
  return std::min(last, now);
}

Millis ActivityMeter::idle_for(Monotonic now) const {
  return std::chrono::duration_cast<Millis>(now - last_active(now));
}

std::vector<ActiveReason> ActivityMeter::reasons(Monotonic now) const {
  std::vector<ActiveReason> result;
  for (std::size_t i = 0; i < reasons_count; ++i) {
    const auto reason = static_cast<ActiveReason>(i);
    if (const auto when = moment(reason, now); when && now - *when <= recent) result.push_back(reason);
  }
  return result;
}

}  // namespace space
