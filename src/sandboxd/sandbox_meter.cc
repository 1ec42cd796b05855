#include "sandboxd/sandbox_meter.h"

#include <algorithm>
#include <random>

#include "base/log.h"
#include "sandboxd/vmm_usage.h"

namespace space {

class SandboxMeter::MeteredStream final : public Stream {
 public:
  MeteredStream(StreamPtr inner, std::shared_ptr<SandboxMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {
    meter_->streams_.insert(this);
    meter_->activity_.stream_opened(system_clock().monotonic());
  }
  ~MeteredStream() override {
    meter_->streams_.erase(this);
    meter_->activity_.stream_closed(system_clock().monotonic());
  }
  MeteredStream(const MeteredStream&) = delete;
  MeteredStream& operator=(const MeteredStream&) = delete;

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    auto n = co_await inner_->read(into);
    if (n) moved(meter_->bytes_out_, *n);
    co_return n;
  }
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    auto written = co_await inner_->write(bytes);
    if (written) moved(meter_->bytes_in_, bytes.size());
    co_return written;
  }
  Task<Result<void>> finish() override { return inner_->finish(); }
  void reset() noexcept override { inner_->reset(); }

 private:
  void moved(std::uint64_t& counter, std::size_t bytes) {
    if (bytes == 0) return;
    counter += bytes;
    meter_->activity_.note_traffic(system_clock().monotonic());
  }

  StreamPtr inner_;
  std::shared_ptr<SandboxMeter> meter_;
};

SandboxMeter::SandboxMeter(Executor executor, Hooks hooks, Pace pace, std::optional<Wall> wake_at)
    : executor_(executor),
      hooks_(std::move(hooks)),
      pace_(pace),
      activity_(system_clock().monotonic()),
      wake_at_(wake_at),
      sampled_(executor),
      wake_(executor) {}

void SandboxMeter::cut_streams() {
  for (MeteredStream* stream : streams_) stream->reset();
}

void SandboxMeter::keep() {
  spawn(executor_, "sandbox meter", keep_sampling());
}

void SandboxMeter::close() {
  closed_ = true;
  wake_.notify_all();
  sampled_.notify_all();
}

StreamPtr SandboxMeter::metered(StreamPtr guest) {
  return std::make_unique<MeteredStream>(std::move(guest), shared_from_this());
}

bool SandboxMeter::eager() const {
  return looked_at_ && system_clock().monotonic() - *looked_at_ < pace_.eager_for;
}

// Sandboxes made in one moment must not be asked in one moment for ever after.
Millis SandboxMeter::pause() const {
  static thread_local std::minstd_rand random(std::random_device{}());
  const Millis base = eager() ? std::min(pace_.eager, pace_.rare) : pace_.rare;
  return base * std::uniform_int_distribution<std::int64_t>(80, 120)(random) / 100;
}

Task<void> SandboxMeter::keep_sampling() {
  const auto self = shared_from_this();
  while (!closed_) {
    if (co_await wake_.wait(Deadline::after(pause())) || closed_) continue;
    hooks_.tick();
    if (!sampling_ && hooks_.answers()) begin_sample("activity");
  }
}

void SandboxMeter::begin_sample(std::string call) {
  sampling_ = true;
  stats_under_way_ = call == "stats";
  spawn(executor_, "sandbox sample", sample(std::move(call)));
}

Task<void> SandboxMeter::sample(std::string call) {
  const auto self = shared_from_this();
  const auto answer = co_await hooks_.ask(call, Deadline::after(pace_.answer_limit));
  sampling_ = stats_under_way_ = false;
  if (answer && !closed_)
    if (const auto taken = take(call, *answer); !taken)
      log::debug("a guest's sample is not valid", {log::Field(taken.error())});
  sampled_.notify_all();
}

Result<void> SandboxMeter::take(const std::string& call, const JsonObject& answer) {
  const Monotonic now = system_clock().monotonic();
  if (call == "activity") {
    SPACE_TRY(GuestActivity activity, parse_guest_activity(answer));
    take_activity(std::move(activity), now);
    return {};
  }
  SPACE_TRY(GuestStats stats, parse_guest_stats(answer));
  SPACE_TRY(const JsonObject* inner, object_member(answer, "activity"));
  if (inner != nullptr) {
    SPACE_TRY(GuestActivity activity, parse_guest_activity(*inner));
    take_activity(std::move(activity), now);
  }
  guest_stats_ = stats;
  guest_stats_at_ = now;
  guest_stats_wall_ = system_clock().wall();
  return {};
}

void SandboxMeter::take_activity(GuestActivity activity, Monotonic now) {
  measure_cpu(activity.cpu_used_us, now);
  activity_.note_cpu(now, activity.cpu_used_us);
  std::optional<Monotonic> until;
  for (const GuestLease& lease : activity.leases)
    until = std::max(until.value_or(now), now + lease.expires_in);
  activity_.note_leases(now, until);
  if (wake_at_ != activity.wake_at) {
    wake_at_ = activity.wake_at;
    hooks_.wake_at_changed(wake_at_);
  }
  latest_ = Sample{now, system_clock().wall(), std::move(activity)};
}

// Two samples close together would measure the scheduler, not the work.
void SandboxMeter::measure_cpu(std::uint64_t used_us, Monotonic now) {
  constexpr Millis span_min{1000};
  if (cpu_base_ && used_us >= cpu_base_->used_us) {
    if (now - cpu_base_->at < span_min) return;
    const double span_us = std::chrono::duration<double, std::micro>(now - cpu_base_->at).count();
    const double cpus = guest_stats_ ? static_cast<double>(guest_stats_->cpu_count) : 1;
    cpu_used_pct_ = std::min(100 * static_cast<double>(used_us - cpu_base_->used_us) / span_us, 100 * cpus);
  }
  cpu_base_ = CpuBase{now, used_us};
}

bool SandboxMeter::fresh() const {
  return guest_stats_ && system_clock().monotonic() - guest_stats_at_ <= pace_.fresh;
}

void SandboxMeter::look() {
  if (!eager()) wake_.notify_all();
  looked_at_ = system_clock().monotonic();
  if (!fresh() && !sampling_ && !closed_ && hooks_.answers()) begin_sample("stats");
}

Task<bool> SandboxMeter::refresh(Deadline deadline) {
  const auto self = shared_from_this();
  look();
  bool tried = stats_under_way_;
  while (!fresh() && !closed_) {
    if (!sampling_) {
      if (std::exchange(tried, true) || !hooks_.answers()) break;
      begin_sample("stats");
    } else if (!co_await sampled_.wait(deadline))
      break;
  }
  co_return fresh();
}

Task<bool> SandboxMeter::sample_now(Deadline deadline) {
  const auto self = shared_from_this();
  while (sampling_)
    if (!co_await sampled_.wait(deadline)) co_return false;
  if (closed_ || !hooks_.answers()) co_return false;
  const Monotonic asked = system_clock().monotonic();
  begin_sample("activity");
  while (sampling_)
    if (!co_await sampled_.wait(deadline)) co_return false;
  co_return latest_ && latest_->at >= asked;
}

JsonObject SandboxMeter::stats() const {
  JsonObject stats{{"sampled_at", nullptr}, {"vmm_cpu_us", nullptr}, {"vmm_rss", nullptr}};
  if (const auto usage = read_vmm_usage(hooks_.vmm_pid())) {
    stats["vmm_cpu_us"] = usage->cpu_us;
    stats["vmm_rss"] = usage->rss_bytes;
  }
  stats["activity"] = activity();
  if (!guest_stats_) return stats;
  const GuestStats& guest = *guest_stats_;
  stats["sampled_at"] = to_rfc3339(guest_stats_wall_);
  stats["cpu_count"] = guest.cpu_count;
  stats["cpu_used_us"] = guest.cpu_used_us;
  stats["user_cpu_used_us"] = latest_ ? latest_->activity.cpu_used_us : 0;
  stats["cpu_used_pct"] = cpu_used_pct_ ? Json(*cpu_used_pct_) : Json(nullptr);
  stats["mem_total"] = guest.memory_total;
  stats["mem_used"] = guest.memory_used;
  stats["mem_cache"] = guest.memory_cache;
  stats["disk_total"] = guest.disk_total;
  stats["disk_used"] = guest.disk_used;
  stats["processes"] = guest.processes;
  stats["tasks"] = guest.tasks;
  return stats;
}

JsonObject SandboxMeter::activity() const {
  const Monotonic now = system_clock().monotonic();
  const Millis idle = activity_.idle_for(now);
  JsonArray reasons;
  for (const ActiveReason reason : activity_.reasons(now)) reasons.emplace_back(to_string(reason));
  JsonArray leases;
  if (latest_)
    for (const GuestLease& lease : latest_->activity.leases)
      if (latest_->at + lease.expires_in > now)
        leases.push_back(
            JsonObject{{"name", lease.name}, {"expires_at", to_rfc3339(latest_->wall + lease.expires_in)}});
  JsonObject activity{{"last_active_at", to_rfc3339(system_clock().wall() - idle)},
                      {"idle_s", idle.count() / 1000},
                      {"reasons", std::move(reasons)},
                      {"streams", streams_.size()},
                      {"bytes_in", bytes_in_},
                      {"bytes_out", bytes_out_},
                      {"leases", std::move(leases)},
                      {"wake_at", nullptr}};
  if (wake_at_) activity["wake_at"] = to_rfc3339(*wake_at_);
  return activity;
}

}  // namespace space
