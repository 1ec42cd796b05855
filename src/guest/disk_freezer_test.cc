// The freezer over calls of a disk that the test moves; the real ones are used in a guest's own kernel only.
#include "guest/disk_freezer.h"

#include <unistd.h>

#include <atomic>

#include "net/test_loop.h"

namespace space::guest {
namespace {

class FakeDisk {
 public:
  DiskFreezer::Calls calls() {
    return {.flush = [this] { wait_while(slow_flush); },
            .freeze = [this]() -> Result<void> {
              freezing = true;
              wait_while(slow_freeze);
              freezing = false;
              if (refuses) return fail(Code::internal, "no such call");
              if (frozen.exchange(true)) return fail(Code::internal, "frozen twice");
              ++freezes;
              return {};
            },
            .thaw = [this]() -> Result<void> {
              if (!frozen.exchange(false)) return fail(Code::internal, "not frozen");
              ++thaws;
              return {};
            }};
  }
  std::atomic<bool> slow_flush = false, slow_freeze = false, refuses = false;
  std::atomic<bool> freezing = false, frozen = false;
  std::atomic<int> freezes = 0, thaws = 0;

 private:
  static void wait_while(const std::atomic<bool>& busy) {
    while (busy) ::usleep(500);
  }
};

class DiskFreezerTest : public LoopTest {
 protected:
  static constexpr Millis long_time{60'000};
  static Task<void> until(std::function<bool()> condition) {
    for (int i = 0; i < 10'000 && !condition(); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(condition());
  }
  Task<void> freeze_beside(Millis limit, std::optional<Result<void>>* outcome) {
    *outcome = co_await freezer_.freeze(limit);
  }

  FakeDisk disk_;
  DiskFreezer freezer_{executor(), disk_.calls()};
};

TEST_F(DiskFreezerTest, HoldsUntilItIsThawed) {
  run([&]() -> Task<void> {
    EXPECT_FALSE(co_await freezer_.thaw(soon())) << "nothing was frozen";
    EXPECT_TRUE(co_await freezer_.freeze(long_time));
    EXPECT_TRUE(disk_.frozen);
    EXPECT_TRUE(freezer_.busy());
    EXPECT_TRUE(co_await freezer_.thaw(soon()));
    EXPECT_FALSE(disk_.frozen);
    EXPECT_FALSE(freezer_.busy());
    EXPECT_FALSE(co_await freezer_.thaw(soon())) << "it was over already";
  });
  EXPECT_EQ(disk_.thaws, 1);
}

TEST_F(DiskFreezerTest, ThawsItselfWhenNobodyAsks) {
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await freezer_.freeze(Millis(200)));
    EXPECT_TRUE(disk_.frozen);
    co_await until([&] { return !disk_.frozen; });
    EXPECT_FALSE(co_await freezer_.thaw(soon())) << "a copy made up to now is not whole";
    EXPECT_TRUE(co_await freezer_.freeze(long_time)) << "and can be frozen again";
    EXPECT_TRUE(co_await freezer_.thaw(soon()));
  });
  EXPECT_EQ(disk_.thaws, 2);
}

TEST_F(DiskFreezerTest, WhoThawsItBesidesIsNoticed) {
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await freezer_.freeze(long_time));
    disk_.frozen = false;
    EXPECT_FALSE(co_await freezer_.thaw(soon()));
  });
}

TEST_F(DiskFreezerTest, AFreezeThatComesTooLateIsThawedAtOnce) {
  disk_.slow_freeze = true;
  run([&]() -> Task<void> {
    EXPECT_EQ((co_await freezer_.freeze(Millis(50))).error().code, Code::deadline);
    EXPECT_TRUE(freezer_.busy());
    EXPECT_EQ((co_await freezer_.freeze(Millis(50))).error().code, Code::conflict) << "it still hangs";
    disk_.slow_freeze = false;
    co_await until([&] { return !freezer_.busy(); });
  });
  EXPECT_EQ(disk_.freezes, 1);
  EXPECT_EQ(disk_.thaws, 1);
  EXPECT_FALSE(disk_.frozen);
}

TEST_F(DiskFreezerTest, AThawWinsOverAFreezeUnderWay) {
  for (const bool in_flush : {true, false}) {
    (in_flush ? disk_.slow_flush : disk_.slow_freeze) = true;
    run([&]() -> Task<void> {
      std::optional<Result<void>> outcome;
      spawn(executor(), "freeze", freeze_beside(long_time, &outcome));
      co_await until([&] { return in_flush ? freezer_.busy() : disk_.freezing.load(); });
      EXPECT_FALSE(co_await freezer_.thaw(Deadline::after(Millis(20))));
      EXPECT_TRUE(freezer_.busy()) << "the call itself cannot be ended";
      disk_.slow_flush = disk_.slow_freeze = false;
      EXPECT_FALSE(co_await freezer_.thaw(soon()));
      EXPECT_FALSE(freezer_.busy());
      co_await until([&] { return outcome.has_value(); });
      EXPECT_EQ(outcome->error().code, Code::conflict);
    });
    EXPECT_FALSE(disk_.frozen);
    EXPECT_EQ(disk_.freezes, in_flush ? 0 : 1);
    EXPECT_EQ(disk_.thaws, disk_.freezes);
  }
}

TEST_F(DiskFreezerTest, ASecondFreezeEndsTheFirst) {
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await freezer_.freeze(long_time));
    EXPECT_TRUE(co_await freezer_.freeze(long_time));
    EXPECT_TRUE(disk_.frozen);
    EXPECT_EQ(disk_.thaws, 1);
    EXPECT_TRUE(co_await freezer_.thaw(soon()));
  });
}

TEST_F(DiskFreezerTest, WhatTheKernelRefusesIsTold) {
  disk_.refuses = true;
  run([&]() -> Task<void> {
    EXPECT_EQ((co_await freezer_.freeze(long_time)).error().message, "no such call");
    EXPECT_FALSE(freezer_.busy());
    disk_.refuses = false;
    EXPECT_TRUE(co_await freezer_.freeze(long_time));
  });
  EXPECT_TRUE(disk_.frozen) << "the destructor thaws it";
}

}  // namespace
}  // namespace space::guest
