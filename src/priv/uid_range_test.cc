#include "priv/uid_range.h"

#include <gtest/gtest.h>

namespace space::priv {
namespace {

constexpr auto never = [](uid_t) { return false; };

TEST(UidRange, GoesRoundBeforeItGivesOneOutAgain) {
  UidRange range(10, 12, 11);
  EXPECT_EQ(range.take(never), 11U);
  range.release(11);
  EXPECT_EQ(range.take(never), 12U);
  EXPECT_EQ(range.take(never), 10U);
  EXPECT_EQ(range.take(never), 11U);
}

TEST(UidRange, PassesOverWhatIsHeldOrHasAProcess) {
  UidRange range(10, 14, 10);
  range.hold(10);
  range.hold(11);
  EXPECT_EQ(range.take([](uid_t uid) { return uid == 12; }), 13U);
}

TEST(UidRange, EndsWhenAllAreInUse) {
  UidRange range(10, 11, 10);
  EXPECT_TRUE(range.take(never));
  EXPECT_TRUE(range.take(never));
  EXPECT_EQ(range.take(never), std::nullopt);
  range.release(10);
  EXPECT_EQ(range.take(never), 10U);
  range.release(11);
  EXPECT_EQ(range.take([](uid_t) { return true; }), std::nullopt);
}

}  // namespace
}  // namespace space::priv
