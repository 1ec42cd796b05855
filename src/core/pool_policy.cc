#include "core/pool_policy.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace space {
namespace {

std::int64_t have(const PoolState& pool) {
  return pool.parked + pool.filling;
}

// a.first / a.second < b.first / b.second, where the second is positive.
bool emptier(std::int64_t have_a, std::int64_t of_a, std::int64_t have_b, std::int64_t of_b) {
  return have_a * of_b < have_b * of_a;
}

// Indices, most recently wanted first; those alike in their order.
std::vector<std::size_t> by_demand(std::span<const PoolState> pools) {
  std::vector<std::size_t> order(pools.size());
  std::iota(order.begin(), order.end(), 0uz);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return std::tuple(-pools[a].burst, -pools[a].recent, a) <
           std::tuple(-pools[b].burst, -pools[b].recent, b);
  });
  return order;
}

}  // namespace

void PoolDemand::note(Monotonic now) {
  asked_.push_back(now);
  constexpr std::size_t kept = 2 * pool_limits::target_max;
  while (asked_.size() > kept || now - asked_.front() > pool_limits::demand_window) asked_.pop_front();
}

std::int64_t PoolDemand::within(Millis span, Monotonic now) const {
  const auto first = std::ranges::lower_bound(asked_, now - span);
  return asked_.end() - first;
}

std::int64_t wanted(const PoolState& pool, const PoolOptions& options) {
  using namespace pool_limits;
  if (pool.chosen) return std::clamp<std::int64_t>(*pool.chosen, 0, target_max);
  const std::int64_t target = std::clamp<std::int64_t>(options.target, 0, target_max);
  if (!pool.offered) return std::clamp<std::int64_t>(pool.recent / demand_worth, 0, target);
  return std::clamp<std::int64_t>(pool.burst, target, std::min(target * burst_factor, target_max));
}

std::vector<std::int64_t> allot(std::span<const PoolState> pools, const PoolOptions& options) {
  std::vector<std::int64_t> wishes, allotted(pools.size(), 0);
  for (const PoolState& pool : pools) wishes.push_back(wanted(pool, options));
  const std::vector<std::size_t> order = by_demand(pools);
  std::int64_t left = std::max<std::int64_t>(options.max, 0);
  for (bool gave = true; gave && left > 0;) {
    gave = false;
    for (const std::size_t i : order) {
      if (left == 0 || allotted[i] == wishes[i]) continue;
      ++allotted[i];
      --left;
      gave = true;
    }
  }
  return allotted;
}

std::optional<std::size_t> next_to_fill(std::span<const PoolState> pools, const PoolOptions& options,
                                        bool busy, Monotonic now) {
  if (busy) return std::nullopt;
  std::int64_t total = 0;
  for (const PoolState& pool : pools) {
    if (pool.filling > 0) return std::nullopt;
    total += have(pool);
  }
  if (total >= options.max) return std::nullopt;
  const auto allotted = allot(pools, options);
  std::optional<std::size_t> emptiest;
  for (const std::size_t i : by_demand(pools)) {
    const PoolState& pool = pools[i];
    if (have(pool) >= allotted[i] || now < pool.retry_at || !pool.fits) continue;
    if (!emptiest || emptier(have(pool), allotted[i], have(pools[*emptiest]), allotted[*emptiest]))
      emptiest = i;
  }
  return emptiest;
}

std::optional<std::size_t> next_surplus(std::span<const PoolState> pools, const PoolOptions& options) {
  const auto allotted = allot(pools, options);
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (pools[i].parked > 0 && have(pools[i]) > allotted[i]) return i;
  return std::nullopt;
}

std::optional<std::size_t> next_to_evict(std::span<const PoolState> pools) {
  const auto rank = [&](std::size_t i) {
    return std::tuple(pools[i].burst, pools[i].recent, -pools[i].parked);
  };
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (pools[i].parked > 0 && (!least || rank(i) < rank(*least))) least = i;
  return least;
}

Millis retry_pause(std::int64_t failures) {
  constexpr std::int64_t doublings_max = 6;
  const auto doubled = pool_limits::retry_first *
                       (std::int64_t{1} << std::clamp<std::int64_t>(failures - 1, 0, doublings_max));
  return std::min<Millis>(doubled, pool_limits::retry_last);
}

}  // namespace space
