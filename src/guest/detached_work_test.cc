#include "guest/detached_work.h"

#include <atomic>
#include <set>
#include <thread>

#include "net/test_loop.h"

namespace space::guest {
namespace {

class DetachedWorkTest : public LoopTest {
 protected:
  // Returns once `gate` is open.
  static std::function<int()> stuck(std::shared_ptr<std::atomic<bool>> gate) {
    return [gate] {
      while (!*gate) std::this_thread::sleep_for(Millis(1));
      return 1;
    };
  }
};

TEST_F(DetachedWorkTest, OneAfterTheOtherTheyShareAThread) {
  run([&]() -> Task<void> {
    std::set<std::thread::id> threads;
    for (int i = 0; i < 20; ++i) {
      const auto id = co_await detached_work([] { return std::this_thread::get_id(); }, soon());
      EXPECT_TRUE(id.has_value());
      threads.insert(id.value_or(std::thread::id()));
      // Its thread is idle a moment after the answer is here.
      co_await sleep_for(Millis(5));
    }
    EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
    EXPECT_LT(threads.size(), 20U);
  });
}

TEST_F(DetachedWorkTest, WhatIsStuckKeepsNoOtherWaitingUntilTooManyAre) {
  const auto gate = std::make_shared<std::atomic<bool>>(false);
  run([&]() -> Task<void> {
    const auto now = Deadline::after(Millis(1));
    int begun = 0;
    while (begun < 100) {
      EXPECT_FALSE((co_await detached_work(stuck(gate), now)).has_value());
      const auto other = co_await detached_work([] { return 7; }, soon());
      if (!other) break;
      EXPECT_EQ(*other, 7);
      ++begun;
    }
    EXPECT_GE(begun, 3);
    EXPECT_LT(begun, 100);
    *gate = true;
    std::optional<int> answer;
    for (int i = 0; i < 10'000 && !answer; ++i) {
      answer = co_await detached_work([] { return 8; }, soon());
      if (!answer) co_await sleep_for(Millis(1));
    }
    EXPECT_EQ(answer, 8);
    // Each one that was stuck comes back to this loop, which must not end before.
    for (int i = 0; i < 10'000 && gate.use_count() > 1; ++i) co_await sleep_for(Millis(1));
    EXPECT_EQ(gate.use_count(), 1);
  });
}

}  // namespace
}  // namespace space::guest
