#include "control/timeouts.h"

#include <gtest/gtest.h>

namespace space::control {
namespace {

constexpr Wall at(int seconds) {
  return Wall(std::chrono::seconds(seconds));
}

TEST(Timeouts, ComeOutInOrderOnce) {
  Timeouts timeouts;
  timeouts.set("late", at(30));
  timeouts.set("early", at(10));
  timeouts.set("middle", at(20));
  EXPECT_EQ(timeouts.next(), at(10));
  EXPECT_TRUE(timeouts.take_due(at(9)).empty());
  EXPECT_EQ(timeouts.take_due(at(20)), (std::vector<std::string>{"early", "middle"}));
  EXPECT_TRUE(timeouts.take_due(at(20)).empty());
  EXPECT_EQ(timeouts.next(), at(30));
}

TEST(Timeouts, MoveAndVanish) {
  Timeouts timeouts;
  timeouts.set("a", at(10));
  timeouts.set("a", at(50));
  EXPECT_TRUE(timeouts.take_due(at(49)).empty());
  timeouts.remove("a");
  timeouts.remove("a");
  EXPECT_FALSE(timeouts.next());
  EXPECT_TRUE(timeouts.take_due(at(99)).empty());
}

}  // namespace
}  // namespace space::control
