#include "core/pool_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr PoolOptions configured{.target = 8, .max = 64};
const Monotonic now{10h};

PoolState offered(std::int64_t parked = 0) {
  return {.offered = true, .parked = parked};
}

TEST(PoolDemand, ForgetsWhatIsOld) {
  PoolDemand demand;
  EXPECT_EQ(demand.within(60s, now), 0);
  demand.note(now - 9min);
  demand.note(now - 30s);
  demand.note(now);
  EXPECT_EQ(demand.within(pool_limits::demand_window, now), 3);
  EXPECT_EQ(demand.within(pool_limits::burst_window, now), 2);
  EXPECT_EQ(demand.within(pool_limits::demand_window, now + 5min), 2);
  EXPECT_EQ(demand.within(pool_limits::demand_window, now + 20min), 0);
}

TEST(PoolDemand, KeepsABoundedNumber) {
  PoolDemand demand;
  for (int i = 0; i < 10'000; ++i) demand.note(now);
  EXPECT_EQ(demand.within(60s, now), 2 * pool_limits::target_max);
}

TEST(PoolTarget, IsAsConfiguredOrChosen) {
  EXPECT_EQ(wanted(offered(), configured), 8);
  EXPECT_EQ(wanted(offered(), {.target = 0}), 0);
  PoolState pool = offered();
  pool.chosen = 3;
  EXPECT_EQ(wanted(pool, configured), 3);
  EXPECT_EQ(wanted(pool, {.target = 0}), 3) << "a wish of its own needs no configuration";
  pool.chosen = 0;
  pool.burst = pool.recent = 500;
  EXPECT_EQ(wanted(pool, configured), 0) << "none means none, whatever is asked for";
}

TEST(PoolTarget, ABurstRaisesItAndItsEndLowersIt) {
  PoolState pool = offered();
  pool.burst = 5;
  EXPECT_EQ(wanted(pool, configured), 8);
  pool.burst = 12;
  EXPECT_EQ(wanted(pool, configured), 12);
  pool.burst = 300;
  EXPECT_EQ(wanted(pool, configured), 16);
  pool.burst = 0;
  EXPECT_EQ(wanted(pool, configured), 8);
  pool.burst = 300;
  EXPECT_EQ(wanted(pool, {.target = 0}), 0);
}

TEST(PoolTarget, AShapeThatIsAskedForEarnsItsOwn) {
  PoolState pool{.recent = 2};
  EXPECT_EQ(wanted(pool, configured), 0);
  pool.recent = 3;
  EXPECT_EQ(wanted(pool, configured), 1);
  pool.recent = 12;
  EXPECT_EQ(wanted(pool, configured), 4);
  pool.recent = 900;
  EXPECT_EQ(wanted(pool, configured), 8);
  EXPECT_EQ(wanted(pool, {.target = 0}), 0);
}

TEST(PoolAllotment, WhatIsScarceGoesRoundThoseAskedForFirst) {
  std::vector<PoolState> pools(3, offered());
  EXPECT_EQ(allot(pools, configured), (std::vector<std::int64_t>{8, 8, 8}));
  EXPECT_EQ(allot(pools, {.target = 8, .max = 9}), (std::vector<std::int64_t>{3, 3, 3}));
  pools[2].recent = 1;
  EXPECT_EQ(allot(pools, {.target = 8, .max = 10}), (std::vector<std::int64_t>{3, 3, 4}));
  EXPECT_EQ(allot(pools, {.target = 8, .max = 1}), (std::vector<std::int64_t>{0, 0, 1}));
  pools[0].chosen = 1;
  EXPECT_EQ(allot(pools, {.target = 8, .max = 11}), (std::vector<std::int64_t>{1, 5, 5}));
  EXPECT_EQ(allot(pools, {.target = 8, .max = 0}), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_TRUE(allot({}, configured).empty());
}

TEST(PoolFill, TheEmptiestIsFilledFirst) {
  std::vector<PoolState> pools{offered(5), offered(2), offered(8)};
  EXPECT_EQ(next_to_fill(pools, configured, false, now), 1);
  pools[0].chosen = 20;  // 5 of 20 are fewer than 3 of 8
  pools[1].parked = 3;
  EXPECT_EQ(next_to_fill(pools, configured, false, now), 0);
  EXPECT_EQ(next_to_fill(std::vector{offered(8)}, configured, false, now), std::nullopt);
}

TEST(PoolFill, OneAtATimeAndNotWhileTheMachineIsNeeded) {
  std::vector<PoolState> pools{offered(1), offered(2)};
  EXPECT_EQ(next_to_fill(pools, configured, false, now), 0);
  EXPECT_EQ(next_to_fill(pools, configured, true, now), std::nullopt);
  pools[1].filling = 1;
  EXPECT_EQ(next_to_fill(pools, configured, false, now), std::nullopt);
}

TEST(PoolFill, OneThatCannotBeFilledNowIsPassedOver) {
  std::vector<PoolState> pools{offered(0), offered(4)};
  EXPECT_EQ(next_to_fill(pools, configured, false, now), 0);
  pools[0].retry_at = now + 1s;
  EXPECT_EQ(next_to_fill(pools, configured, false, now), 1);
  EXPECT_EQ(next_to_fill(pools, configured, false, now + 1s), 0);
  pools[0].fits = pools[1].fits = false;
  EXPECT_EQ(next_to_fill(pools, configured, false, now + 1s), std::nullopt);
  pools[0].fits = true;
  EXPECT_EQ(next_to_fill(pools, {.target = 8, .max = 4}, false, now + 1s), std::nullopt) << "all are parked";
}

TEST(PoolSurplus, IsWhatIsMoreThanAllotted) {
  std::vector<PoolState> pools{offered(8), offered(8)};
  EXPECT_EQ(next_surplus(pools, configured), std::nullopt);
  EXPECT_EQ(next_surplus(pools, {.target = 8, .max = 15}), 1);
  pools[0].chosen = 7;
  EXPECT_EQ(next_surplus(pools, configured), 0);
  // A template that is gone is offered no more, and all of its VMs are too many.
  EXPECT_EQ(next_surplus(std::vector{PoolState{.parked = 1}}, configured), 0);
}

TEST(PoolEviction, TakesFromTheLeastAskedForAndTheFullest) {
  EXPECT_EQ(next_to_evict({}), std::nullopt);
  EXPECT_EQ(next_to_evict(std::vector{offered(0)}), std::nullopt);
  std::vector<PoolState> pools{offered(2), offered(5), offered(0)};
  EXPECT_EQ(next_to_evict(pools), 1);
  pools[1].recent = 1;
  EXPECT_EQ(next_to_evict(pools), 0);
  pools[0].burst = 1;
  EXPECT_EQ(next_to_evict(pools), 1);
}

TEST(PoolRetry, DoublesUpToABound) {
  EXPECT_EQ(retry_pause(1), 1s);
  EXPECT_EQ(retry_pause(2), 2s);
  EXPECT_EQ(retry_pause(5), 16s);
  EXPECT_EQ(retry_pause(7), 60s);
  EXPECT_EQ(retry_pause(1'000'000), 60s);
  EXPECT_EQ(retry_pause(0), 1s);
}

PoolState random_pool(std::mt19937& random) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound));
  };
  PoolState pool;
  if (below(4) == 0) pool.chosen = below(20);
  pool.offered = below(2) == 0;
  pool.recent = below(40);
  pool.burst = std::min(pool.recent, below(40));
  pool.parked = below(12);
  pool.fits = below(5) != 0;
  pool.retry_at = now + Millis(below(3) - 1);
  return pool;
}

TEST(PoolProperties, AllotmentKeepsItsBounds) {
  std::mt19937 random(1);
  int scarce = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<PoolState> pools(random() % 6);
    std::ranges::generate(pools, [&] { return random_pool(random); });
    const PoolOptions options{.target = static_cast<std::int64_t>(random() % 10),
                              .max = static_cast<std::int64_t>(random() % 40)};
    const auto allotted = allot(pools, options);
    const auto more = allot(pools, {.target = options.target, .max = options.max + 1});
    std::int64_t total = 0, wishes = 0;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const std::int64_t wish = wanted(pools[i], options);
      EXPECT_GE(allotted[i], 0);
      EXPECT_LE(allotted[i], wish);
      EXPECT_GE(more[i], allotted[i]) << "more room takes nothing away";
      for (std::size_t other = 0; other < pools.size(); ++other)
        if (allotted[i] < wish)
          EXPECT_LE(allotted[other], allotted[i] + 1) << "one waits, another has to spare";
      total += allotted[i];
      wishes += wish;
    }
    EXPECT_EQ(total, std::min(wishes, options.max));
    scarce += wishes > options.max;
  }
  EXPECT_GT(scarce, 500);
}

// Filling and giving up end, in a state where nothing is left to do, and never exceed the cap on the way.
TEST(PoolProperties, FillingAndGivingUpComeToRest) {
  std::mt19937 random(2);
  int filled = 0, given_up = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<PoolState> pools(1 + random() % 5);
    std::ranges::generate(pools, [&] { return random_pool(random); });
    const PoolOptions options{.target = static_cast<std::int64_t>(random() % 10),
                              .max = static_cast<std::int64_t>(random() % 40)};
    int steps = 0;
    for (bool moved = true; moved && steps < 1000; ++steps) {
      moved = false;
      if (const auto surplus = next_surplus(pools, options)) {
        --pools[*surplus].parked;
        ++given_up;
        moved = true;
      } else if (const auto next = next_to_fill(pools, options, false, now)) {
        ++pools[*next].parked;
        ++filled;
        moved = true;
        std::int64_t total = 0;
        for (const PoolState& pool : pools) total += pool.parked;
        ASSERT_LE(total, options.max);
      }
    }
    ASSERT_LT(steps, 1000) << "it fills what it gives up";
    const auto allotted = allot(pools, options);
    for (std::size_t i = 0; i < pools.size(); ++i) {
      EXPECT_LE(pools[i].parked, allotted[i]);
      if (pools[i].fits && pools[i].retry_at <= now) EXPECT_EQ(pools[i].parked, allotted[i]);
    }
  }
  EXPECT_GT(filled, 1000);
  EXPECT_GT(given_up, 1000);
}

}  // namespace
}  // namespace space
