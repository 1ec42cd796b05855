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
constexpr Millis retry_after = 10s;
constexpr Millis turn_limit = 60s;
constexpr Millis ready_limit = 30s;
// A shape that was asked for this often in this time is worth a VM of its own.
constexpr Millis demand_window = 10min;
constexpr std::size_t demand_worth = 3;
constexpr std::size_t asked_kept = 64;
constexpr std::int64_t target_max = 1000;

}  // namespace

WarmPool::WarmPool(Parts parts, Options options)
    : parts_(std::move(parts)), options_(options), changed_(parts_.host.executor) {}

std::int64_t WarmPool::target_of(const Kind& kind) const {
  if (kind.target) return *kind.target;
  if (options_.target == 0) return 0;
  if (kind.offered) return options_.target;
  const Monotonic since = system_clock().monotonic() - demand_window;
  const auto recent = std::ranges::count_if(kind.asked, [&](Monotonic at) { return at >= since; });
  return static_cast<std::size_t>(recent) >= demand_worth ? 1 : 0;
}

std::int64_t WarmPool::total() const {
  std::int64_t count = 0;
  for (const auto& [key, kind] : kinds_)
    count += static_cast<std::int64_t>(kind.parked.size()) + kind.filling;
  return count;
}

void WarmPool::offer(const VmKind& kind) {
  kinds_[kind].offered = true;
  changed_.notify_all();
}

Result<void> WarmPool::set_target(const std::string& template_digest, std::optional<std::int64_t> target) {
  if (target && (*target < 0 || *target > target_max))
    return fail(Code::invalid_argument, "a pool's target is 0 to {}", target_max);
  for (auto& [key, kind] : kinds_) {
    if (key.template_digest != template_digest || !kind.offered) continue;
    kind.target = target;
    changed_.notify_all();
    return {};
  }
  return fail(Code::not_found, "the template has no checkpoint on this node yet");
}

std::optional<std::string> WarmPool::take(const VmKind& kind) {
  Kind& pool = kinds_[kind];
  const Monotonic now = system_clock().monotonic();
  pool.asked.push_back(now);
  if (pool.asked.size() > asked_kept) pool.asked.pop_front();
  changed_.notify_all();
  for (Parked& parked : pool.parked) {
    if (parked.machine->dead() || (parked.taken_at && now - *parked.taken_at < reservation)) continue;
    parked.taken_at = now;
    ++pool.hits;
    return parked.id;
  }
  ++pool.misses;
  return std::nullopt;
}

std::shared_ptr<Machine> WarmPool::claim(const std::string& id, const VmKind& kind) {
  const auto pool = kinds_.find(kind);
  if (pool == kinds_.end()) return nullptr;
  auto& parked = pool->second.parked;
  const auto found = std::ranges::find(parked, id, &Parked::id);
  if (found == parked.end() || found->machine->dead()) return nullptr;
  auto machine = std::move(found->machine);
  parked.erase(found);
  changed_.notify_all();
  return machine;
}

void WarmPool::discard(std::string id, std::shared_ptr<Machine> machine) {
  spawn(parts_.host.executor, "end parked VM", end({std::move(id), std::move(machine), {}, std::nullopt}));
}

Task<void> WarmPool::run(MachineAccelerator accelerator) {
  while (true) {
    co_await trim();
    const VmKind* wanted = closed_ ? nullptr : next_to_fill();
    if (wanted == nullptr) {
      co_await changed_.wait(Deadline::after(check_pause));
      continue;
    }
    const VmKind key = *wanted;
    ++kinds_[key].filling;
    auto parked = co_await fill(key, accelerator);
    Kind& kind = kinds_[key];
    --kind.filling;
    if (parked && closed_) {
      co_await end(*std::move(parked));
    } else if (parked) {
      kind.parked.push_back(*std::move(parked));
    } else {
      log::warn("pool not filled", {{"template", key.template_digest}, log::Field(parked.error())});
      kind.retry_at = system_clock().monotonic() + retry_after;
    }
    changed_.notify_all();
    co_await sleep_for(fill_pause);
  }
}

const VmKind* WarmPool::next_to_fill() {
  if (total() >= options_.max || parts_.busy()) return nullptr;
  const Monotonic now = system_clock().monotonic();
  for (auto& [key, kind] : kinds_) {
    const auto have = static_cast<std::int64_t>(kind.parked.size()) + kind.filling;
    if (have >= target_of(kind) || now < kind.retry_at || !parts_.admit(key.shape)) continue;
    return &key;
  }
  return nullptr;
}

// What is dead, or more than is wanted.
Task<void> WarmPool::trim() {
  std::list<Parked> surplus;
  const Monotonic now = system_clock().monotonic();
  for (auto& [key, kind] : kinds_) {
    const std::int64_t target = closed_ ? 0 : target_of(kind);
    for (auto parked = kind.parked.begin(); parked != kind.parked.end();) {
      const auto next = std::next(parked);
      const bool is_taken = parked->taken_at && now - *parked->taken_at < reservation;
      const bool too_many = static_cast<std::int64_t>(kind.parked.size()) > target && !is_taken;
      if (parked->machine->dead() || too_many) surplus.splice(surplus.end(), kind.parked, parked);
      parked = next;
    }
  }
  while (!surplus.empty()) {
    Parked parked = std::move(surplus.front());
    surplus.pop_front();
    co_await end(std::move(parked));
  }
}

Task<Result<WarmPool::Parked>> WarmPool::fill(VmKind kind, MachineAccelerator accelerator) {
  SPACE_CO_TRY(const SnapshotId source, co_await parts_.checkpoints.ensure(kind, accelerator));
  SPACE_CO_TRY(const auto turn, co_await parts_.starts.enter(Deadline::after(turn_limit)));
  Parked parked{new_sandbox_id(), nullptr, source, std::nullopt};
  const auto epoch = std::make_shared<std::uint64_t>(0);
  parked.machine =
      std::make_shared<Machine>(parts_.host, parked.id,
                                ChannelLink::Hooks{[epoch] { return Result<std::uint64_t>(++*epoch); },
                                                   [this] { changed_.notify_all(); }});
  parked.machine->set_wake({.identity = parked.id, .generation = 1, .hooks = true});
  PlanOutcome outcome = co_await run_plan(
      plan_restored_start({kind.template_digest, kind.shape, accelerator}, source), *parked.machine);
  const auto done = outcome.started ? co_await ready(parked.machine) : outcome.started;
  if (done) co_return parked;
  const Error reason = done.error();
  if (outcome.started || !outcome.unwound) co_await end(std::move(parked));
  co_return std::unexpected(reason);
}

// Runs the very command that clients send first; then nothing runs any more.
Task<Result<void>> WarmPool::ready(std::shared_ptr<Machine> machine) {
  const Deadline deadline = Deadline::after(ready_limit);
  SPACE_CO_CHECK(co_await machine->warm(false, deadline));
  if (!co_await machine->quiesce(false))
    co_return fail(Code::unavailable, "the guest did not freeze its programs");
  co_return co_await machine->stop_vcpus(deadline);
}

Task<void> WarmPool::end(Parked parked) {
  Millis pause = 1s;
  while (true) {
    const auto ended = co_await unwind(undo_everything(), *parked.machine);
    if (ended) co_return;
    log::warn("parked VM not removed, will be repeated", {{"id", parked.id}, log::Field(ended.error())});
    co_await sleep_for(pause);
    pause = std::min(pause * 2, Millis(30s));
  }
}

Task<void> WarmPool::drain(std::string template_digest) {
  std::list<Parked> ending;
  for (auto& [key, kind] : kinds_) {
    if (key.template_digest != template_digest) continue;
    kind.offered = false;
    kind.target.reset();
    kind.asked.clear();
    ending.splice(ending.end(), kind.parked);
  }
  while (!ending.empty()) {
    Parked parked = std::move(ending.front());
    ending.pop_front();
    co_await end(std::move(parked));
  }
}

Task<bool> WarmPool::evict_one() {
  for (auto& [key, kind] : kinds_) {
    const auto free = std::ranges::find_if(kind.parked, [](const Parked& p) { return !p.taken_at; });
    if (free == kind.parked.end()) continue;
    Parked parked = std::move(*free);
    kind.parked.erase(free);
    kind.retry_at = system_clock().monotonic() + retry_after;
    co_await end(std::move(parked));
    co_return true;
  }
  co_return false;
}

Task<void> WarmPool::close() {
  closed_ = true;
  co_await trim();
}

JsonArray WarmPool::list() const {
  JsonArray pools;
  for (const auto& [key, kind] : kinds_)
    pools.push_back(JsonObject{{"template", key.template_digest},
                               {"vcpus", key.shape.vcpus},
                               {"memory_mib", key.shape.memory_mib},
                               {"disk_mib", key.shape.disk_mib},
                               {"target", target_of(kind)},
                               {"parked", kind.parked.size()},
                               {"filling", kind.filling},
                               {"hits", kind.hits},
                               {"misses", kind.misses},
                               {"checkpoint", parts_.checkpoints.find(key).has_value()}});
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
  for (const auto& [key, kind] : kinds_)
    for (const Parked& parked : kind.parked) sources.insert(parked.source);
  return sources;
}

}  // namespace space
