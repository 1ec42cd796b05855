#include "sandboxd/warm_pool.h"

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "core/capacity.h"
#include "sandboxd/plan_runner.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis reservation = 30s;
constexpr Millis check_pause = 1s;
// Between two fills, so that refilling never has the machine to itself.
constexpr Millis fill_pause = 20ms;
// Whose place was needed is not put back at once.
constexpr Millis evicted_pause = 10s;
constexpr Millis turn_limit = 60s;
constexpr Millis ready_limit = 30s;
constexpr Millis close_limit = 20s;

}  // namespace

WarmPool::WarmPool(Parts parts, Options options)
    : parts_(std::move(parts)), options_(options), changed_(parts_.host.executor) {}

bool WarmPool::Parked::reserved(Monotonic now) const {
  return taken_at && now - *taken_at < reservation;
}

PoolState WarmPool::state_of(const VmKind& key, const Kind& kind, Monotonic now) const {
  return {.chosen = kind.target,
          .offered = kind.offered,
          .recent = kind.demand.within(pool_limits::demand_window, now),
          .burst = kind.demand.within(pool_limits::burst_window, now),
          .parked = std::ranges::count_if(kind.parked, [now](const Parked& p) { return !p.reserved(now); }),
          .filling = kind.filling,
          .retry_at = kind.retry_at,
          .fits = parts_.admit(key.shape).has_value()};
}

std::vector<PoolState> WarmPool::states() const {
  const Monotonic now = system_clock().monotonic();
  std::vector<PoolState> states;
  for (const auto& [key, kind] : kinds_) states.push_back(state_of(key, kind, now));
  return states;
}

PoolOptions WarmPool::options() const {
  return closed_ ? PoolOptions{.target = 0, .max = 0} : options_;
}

std::map<VmKind, WarmPool::Kind>::iterator WarmPool::kind_at(std::size_t index) {
  return std::next(kinds_.begin(), static_cast<std::ptrdiff_t>(index));
}

void WarmPool::offer(const VmKind& kind) {
  kinds_[kind].offered = true;
  changed_.notify_all();
}

Result<void> WarmPool::set_target(const std::string& template_digest, std::optional<std::int64_t> target) {
  if (target && (*target < 0 || *target > pool_limits::target_max))
    return fail(Code::invalid_argument, "a pool's target is 0 to {}", pool_limits::target_max);
  for (auto& [key, kind] : kinds_) {
    if (key.template_digest != template_digest || key.snapshot || !kind.offered) continue;
    kind.target = target;
    changed_.notify_all();
    return {};
  }
  return fail(Code::not_found, "the template has no checkpoint on this node yet");
}

std::optional<std::string> WarmPool::take(const VmKind& kind) {
  Kind& pool = kinds_[kind];
  const Monotonic now = system_clock().monotonic();
  pool.demand.note(now);
  changed_.notify_all();
  for (Parked& parked : pool.parked) {
    if (parked.machine->dead() || parked.reserved(now)) continue;
    parked.taken_at = now;
    ++pool.hits;
    return parked.id;
  }
  ++pool.misses;
  return std::nullopt;
}

Task<std::shared_ptr<Machine>> WarmPool::claim(std::string id, VmKind kind) {
  const auto pool = kinds_.find(kind);
  if (pool != kinds_.end()) {
    auto& parked = pool->second.parked;
    const auto found = std::ranges::find(parked, id, &Parked::id);
    if (found != parked.end()) {
      Parked taken = std::move(*found);
      parked.erase(found);
      changed_.notify_all();
      if (!taken.machine->dead()) co_return std::move(taken.machine);
      co_await end(std::move(taken));
    }
  }
  while (ending_.contains(id)) co_await changed_.wait();
  co_return nullptr;
}

void WarmPool::discard(std::string id, std::shared_ptr<Machine> machine) {
  spawn(parts_.host.executor, "end parked VM", end({std::move(id), std::move(machine), {}, std::nullopt}));
}

Task<void> WarmPool::run(MachineAccelerator accelerator) {
  while (true) {
    co_await trim();
    forget_unused();
    const std::optional<VmKind> next = next_to_fill();
    if (!next) {
      co_await changed_.wait(Deadline::after(check_pause));
      continue;
    }
    const VmKind key = *next;
    ++kinds_[key].filling;
    filling_from_ = key.snapshot;
    auto parked = co_await fill(key, accelerator);
    filling_from_.reset();
    Kind& kind = kinds_[key];
    --kind.filling;
    if (parked && closed_) {
      co_await end(*std::move(parked));
    } else if (parked) {
      kind.parked.push_back(*std::move(parked));
      kind.failures = 0;
    } else {
      log::warn("pool not filled", {{"template", key.template_digest}, log::Field(parked.error())});
      kind.retry_at = system_clock().monotonic() + retry_pause(++kind.failures);
    }
    changed_.notify_all();
    co_await sleep_for(fill_pause);
  }
}

std::optional<VmKind> WarmPool::next_to_fill() const {
  const auto index = space::next_to_fill(states(), options(), parts_.busy(), system_clock().monotonic());
  if (!index) return std::nullopt;
  return std::next(kinds_.begin(), static_cast<std::ptrdiff_t>(*index))->first;
}

// A shape may be asked for once and never again.
void WarmPool::forget_unused() {
  const Monotonic now = system_clock().monotonic();
  std::erase_if(kinds_, [now](const auto& entry) {
    const Kind& kind = entry.second;
    return !kind.offered && !kind.target && kind.parked.empty() && kind.filling == 0 &&
           kind.demand.within(pool_limits::demand_window, now) == 0;
  });
}

// What is dead, or more than is wanted.
Task<void> WarmPool::trim() {
  std::list<Parked> ending;
  const Monotonic now = system_clock().monotonic();
  for (auto& [key, kind] : kinds_) {
    for (auto parked = kind.parked.begin(); parked != kind.parked.end();) {
      const auto next = std::next(parked);
      if (parked->machine->dead()) ending.splice(ending.end(), kind.parked, parked);
      parked = next;
    }
  }
  while (const auto surplus = next_surplus(states(), options())) {
    auto& parked = kind_at(*surplus)->second.parked;
    const auto free = std::ranges::find_if(parked, [now](const Parked& p) { return !p.reserved(now); });
    if (free == parked.end()) break;
    ending.splice(ending.end(), parked, free);
  }
  co_await end_all(std::move(ending));
}

Task<Result<WarmPool::Parked>> WarmPool::fill(VmKind kind, MachineAccelerator accelerator) {
  SPACE_CO_TRY(const VmSource source, co_await parts_.source(kind, accelerator));
  SPACE_CO_TRY(const auto turn, co_await parts_.starts.enter(Deadline::after(turn_limit)));
  Parked parked{new_sandbox_id(), nullptr, source.start.snapshot, std::nullopt};
  const auto epoch = std::make_shared<std::uint64_t>(0);
  parked.machine =
      std::make_shared<Machine>(parts_.host, parked.id,
                                ChannelLink::Hooks{[epoch] { return Result<std::uint64_t>(++*epoch); },
                                                   [this] { changed_.notify_all(); }});
  const bool of_snapshot = kind.snapshot.has_value();
  parked.machine->set_wake(
      {.identity = parked.id, .generation = source.generation, .hooks = !of_snapshot, .thaw = !of_snapshot});
  PlanOutcome outcome = co_await run_plan(
      plan_start_from({kind.template_digest, kind.shape, accelerator}, source.start), *parked.machine);
  const auto done = outcome.started ? co_await ready(parked.machine, of_snapshot) : outcome.started;
  if (done) co_return parked;
  const Error reason = done.error();
  if (outcome.started || !outcome.unwound) co_await end(std::move(parked));
  co_return std::unexpected(reason);
}

// Runs the very command that clients send first; then nothing runs any more.
Task<Result<void>> WarmPool::ready(std::shared_ptr<Machine> machine, bool of_snapshot) {
  const Deadline deadline = Deadline::after(ready_limit);
  if (!of_snapshot) SPACE_CO_CHECK(co_await machine->warm(false, deadline));
  if (!co_await machine->quiesce(false))
    co_return fail(Code::unavailable, "the guest did not freeze its programs");
  co_return co_await machine->stop_vcpus(deadline);
}

Task<void> WarmPool::end_all(std::list<Parked> ending) {
  for (const Parked& parked : ending) ending_.insert(parked.id);  // also while they wait for their turn
  while (!ending.empty()) {
    Parked parked = std::move(ending.front());
    ending.pop_front();
    co_await end(std::move(parked));
  }
}

Task<void> WarmPool::end(Parked parked) {
  Millis pause = 1s;
  ending_.insert(parked.id);
  while (true) {
    const auto ended = co_await unwind(undo_everything(), *parked.machine);
    if (ended) {
      ending_.erase(parked.id);
      changed_.notify_all();
      co_return;
    }
    log::warn("parked VM not removed, will be repeated", {{"id", parked.id}, log::Field(ended.error())});
    co_await sleep_for(pause);
    pause = std::min(pause * 2, Millis(30s));
  }
}

Task<void> WarmPool::drain(std::string template_digest) {
  return drain_kinds([digest = std::move(template_digest)](const VmKind& kind) {
    return kind.template_digest == digest && !kind.snapshot;
  });
}

Task<void> WarmPool::drain_snapshot(SnapshotId snapshot) {
  return drain_kinds([wanted = std::move(snapshot)](const VmKind& kind) { return kind.snapshot == wanted; });
}

Task<void> WarmPool::drain_kinds(std::function<bool(const VmKind&)> which) {
  std::list<Parked> ending;
  for (auto& [key, kind] : kinds_) {
    if (!which(key)) continue;
    kind.offered = false;
    kind.target.reset();
    kind.demand = {};
    ending.splice(ending.end(), kind.parked);
  }
  co_await end_all(std::move(ending));
}

Task<bool> WarmPool::evict_one() {
  const auto index = next_to_evict(states());
  if (!index) co_return false;
  Kind& kind = kind_at(*index)->second;
  const Monotonic now = system_clock().monotonic();
  const auto free = std::ranges::find_if(kind.parked, [now](const Parked& p) { return !p.reserved(now); });
  if (free == kind.parked.end()) co_return false;
  Parked parked = std::move(*free);
  kind.parked.erase(free);
  kind.retry_at = now + evicted_pause;
  co_await end(std::move(parked));
  co_return true;
}

Task<void> WarmPool::close() {
  closed_ = true;
  for (auto& [key, kind] : kinds_)
    for (Parked& parked : kind.parked) parked.taken_at.reset();
  const Deadline deadline = Deadline::after(close_limit);
  spawn(parts_.host.executor, "end parked VMs", trim());
  // Also those that somebody else is ending, and one that is just being filled.
  while (total() > 0 || !ending_.empty())
    if (!co_await changed_.wait(deadline)) break;
}

// Parked, taken or being made.
std::int64_t WarmPool::total() const {
  std::int64_t count = 0;
  for (const auto& [key, kind] : kinds_)
    count += static_cast<std::int64_t>(kind.parked.size()) + kind.filling;
  return count;
}

JsonArray WarmPool::list() const {
  JsonArray pools;
  const Monotonic now = system_clock().monotonic();
  for (const auto& [key, kind] : kinds_) {
    JsonObject pool{{"template", key.template_digest},
                    {"vcpus", key.shape.vcpus},
                    {"memory_mib", key.shape.memory_mib},
                    {"disk_mib", key.shape.disk_mib},
                    {"target", wanted(state_of(key, kind, now), options())},
                    {"parked", kind.parked.size()},
                    {"filling", kind.filling},
                    {"hits", kind.hits},
                    {"misses", kind.misses},
                    {"checkpoint", parts_.has_source(key)}};
    if (key.snapshot)
      pool["from"] = JsonObject{{"sandbox", key.snapshot->sandbox}, {"number", key.snapshot->number}};
    pools.push_back(std::move(pool));
  }
  return pools;
}

std::int64_t WarmPool::committed_mib() const {
  std::int64_t mib = 0;
  for (const auto& [key, kind] : kinds_)
    mib += memory_cost_mib(key.shape) * (static_cast<std::int64_t>(kind.parked.size()) + kind.filling);
  return mib;
}

std::set<SnapshotId> WarmPool::sources() const {
  std::set<SnapshotId> sources;
  if (filling_from_) sources.insert(*filling_from_);
  for (const auto& [key, kind] : kinds_)
    for (const Parked& parked : kind.parked) sources.insert(parked.source);
  return sources;
}

}  // namespace space
