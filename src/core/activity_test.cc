#include "core/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace space {
namespace {

using namespace std::chrono_literals;
using activity_limits::cpu_window;
using activity_limits::recent;
using testing::ElementsAre;
using testing::IsEmpty;

class Activity : public testing::Test {
 protected:
  Monotonic now() const { return start_ + passed_; }
  void pass(Millis time) { passed_ += time; }
  Millis idle() const { return meter_.idle_for(now()); }
  std::vector<ActiveReason> reasons() const { return meter_.reasons(now()); }

  const Monotonic start_{1h};
  Millis passed_{0};
  ActivityMeter meter_{start_};
};

TEST_F(Activity, NobodyComesAndItIsIdle) {
  EXPECT_EQ(idle(), 0ms);
  pass(1h);
  EXPECT_EQ(idle(), 1h);
  EXPECT_THAT(reasons(), IsEmpty());
}

TEST_F(Activity, ACallIsAMoment) {
  pass(1h);
  meter_.note_call(now());
  EXPECT_EQ(idle(), 0ms);
  pass(recent);
  EXPECT_THAT(reasons(), ElementsAre(ActiveReason::call));
  pass(1ms);
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(idle(), recent + 1ms);
}

TEST_F(Activity, AStreamHoldsUntilTheLastOneIsClosed) {
  meter_.stream_opened(now());
  meter_.stream_opened(now());
  pass(3h);
  meter_.stream_closed(now());
  pass(3h);
  EXPECT_EQ(idle(), 0ms);
  EXPECT_THAT(reasons(), ElementsAre(ActiveReason::stream));
  meter_.stream_closed(now());
  pass(1min);
  EXPECT_EQ(idle(), 1min);
  EXPECT_THAT(reasons(), IsEmpty());
}

TEST_F(Activity, MoreThanOnePercentOfACoreIsWork) {
  meter_.note_cpu(now(), 1'000'000);
  pass(100s);
  meter_.note_cpu(now(), 2'000'000);  // exactly 1 %
  EXPECT_EQ(idle(), 100s);
  pass(100s);
  meter_.note_cpu(now(), 3'000'001);
  EXPECT_EQ(idle(), 0ms);
  EXPECT_THAT(reasons(), ElementsAre(ActiveReason::cpu));
}

TEST_F(Activity, SamplesCloseTogetherAreJudgedTogether) {
  meter_.note_cpu(now(), 0);
  // 0.4 ms every 100 ms is 0.4 %; any pair of neighbours with one 4 ms tick between them would say 4 %.
  std::uint64_t used = 0;
  for (int i = 1; i <= 600; ++i) {
    pass(100ms);
    if (i % 10 == 0) used += 4'000;
    meter_.note_cpu(now(), used);
  }
  EXPECT_EQ(idle(), 60s);
  pass(cpu_window);
  meter_.note_cpu(now(), used + 500'000);
  EXPECT_EQ(idle(), 0ms);
}

TEST_F(Activity, ACountThatFallsIsANewBeginning) {
  meter_.note_cpu(now(), 50'000'000);
  pass(1min);
  meter_.note_cpu(now(), 7);
  EXPECT_EQ(idle(), 1min);
  pass(1min);
  meter_.note_cpu(now(), 7);
  EXPECT_EQ(idle(), 2min);
}

TEST_F(Activity, ALeaseHoldsAndRunsOutByItself) {
  meter_.note_leases(now(), now() + 10min);
  pass(9min);
  EXPECT_EQ(idle(), 0ms);
  EXPECT_THAT(reasons(), ElementsAre(ActiveReason::lease));
  pass(3min);
  EXPECT_EQ(idle(), 2min);  // since it ran out, though no sample has said so
  meter_.note_leases(now(), std::nullopt);
  EXPECT_EQ(idle(), 2min);
  EXPECT_THAT(reasons(), IsEmpty());
}

TEST_F(Activity, ALeaseGivenBackHeldUntilThen) {
  meter_.note_leases(now(), now() + 1h);
  pass(5min);
  meter_.note_leases(now(), std::nullopt);
  pass(5min);
  EXPECT_EQ(idle(), 5min);
}

TEST_F(Activity, AGuestCannotLeaseForEver) {
  meter_.note_leases(now(), Monotonic::max());
  pass(activity_limits::lease_max + 1h);
  EXPECT_EQ(idle(), 1h);
  meter_.note_leases(now(), Monotonic::min());
  EXPECT_EQ(idle(), 1h);
}

TEST_F(Activity, IdleTimeStartsAnewOnResume) {
  meter_.note_cpu(now(), 5);
  pass(8h);
  meter_.note_resumed(now());
  EXPECT_EQ(idle(), 0ms);
  meter_.note_cpu(now(), 900'000'000);  // used before the pause, sampled after it
  pass(1min);
  EXPECT_EQ(idle(), 1min);
}

// Whatever is noted in whatever order: idle time is never negative, grows by no more than the time that
// passed, is 0 while a stream is open, and reasons are given exactly while something recent is there.
TEST(ActivityProperty, HoldsForAnyHistory) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::uint64_t n) { return random() % n; };
    Monotonic now{1h};
    ActivityMeter meter(now);
    std::uint64_t streams = 0;
    Millis idle_before{0};
    for (int step = 0; step < 200; ++step) {
      const Millis passed(below(2) == 0 ? below(100) : below(120'000));
      now += passed;
      ASSERT_LE(meter.idle_for(now), idle_before + passed) << "seed " << seed << " step " << step;
      switch (below(7)) {
        case 0:
          meter.note_call(now);
          break;
        case 1:
          meter.stream_opened(now);
          ++streams;
          break;
        case 2:
          meter.stream_closed(now);
          if (streams > 0) --streams;
          break;
        case 3:
          meter.note_traffic(now);
          break;
        case 4:
          meter.note_cpu(now, random());
          break;
        case 5:
          meter.note_leases(now, below(3) == 0 ? std::nullopt : std::optional(now + Millis(below(200'000))));
          break;
        default:
          meter.note_resumed(now);
      }
      idle_before = meter.idle_for(now);
      ASSERT_GE(idle_before, 0ms);
      ASSERT_LE(meter.last_active(now), now);
      if (streams > 0) ASSERT_EQ(idle_before, 0ms);
      if (!meter.reasons(now).empty()) ASSERT_LE(idle_before, recent);
      if (idle_before > recent) ASSERT_THAT(meter.reasons(now), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace space
