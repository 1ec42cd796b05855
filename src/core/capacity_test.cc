#include "core/capacity.h"

#include <gtest/gtest.h>

namespace space {
namespace {

constexpr Shape shape{.memory_mib = 512};
constexpr std::int64_t cost = memory_cost_mib(shape);

TEST(Capacity, TheLastMebibyteIsGivenAway) {
  EXPECT_TRUE(admit_memory(shape, 0, cost));
  EXPECT_FALSE(admit_memory(shape, 0, cost - 1));
  EXPECT_TRUE(admit_memory(shape, 9 * cost, 10 * cost));
  EXPECT_FALSE(admit_memory(shape, 9 * cost + 1, 10 * cost));
}

TEST(Capacity, TheRefusalSaysHowMuchAndWhatToDo) {
  const auto refused = admit_memory(shape, 700, 1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  for (const char* word : {"640 MiB", "700 of 1000 MiB", "memory_limit_mib"})
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << word;
}

TEST(Capacity, ALoweredLimitBelowWhatRunsRefusesEverything) {
  EXPECT_FALSE(admit_memory(shape, 5000, 1000));
}

TEST(Capacity, TheDefaultLeavesTheHostATenth) {
  EXPECT_EQ(default_memory_limit_mib(10000), 9000);
  EXPECT_FALSE(admit_memory({.memory_mib = 65536}, 0, default_memory_limit_mib(24 * 1024)));
}

}  // namespace
}  // namespace space
