#include "priv/pool.h"

#include <gtest/gtest.h>

namespace space::priv {
namespace {

TEST(Pool, TheReserveIsATwentiethButNeverMoreThanAGibibyte) {
  constexpr std::uint64_t gib = 1 << 30;
  EXPECT_EQ(pool_reserve_bytes(2 * gib), gib / 10);
  EXPECT_EQ(pool_reserve_bytes(64 * gib), gib);
  EXPECT_EQ(pool_reserve_bytes(0), 0u);
}

TEST(PoolSize, TheDefaultWhenThereIsRoom) {
  EXPECT_EQ(choose_pool_mib(200'000, pool_mib_default), 65'536U);
}

TEST(PoolSize, NeverPromisesWhatTheDiskDoesNotHave) {
  EXPECT_EQ(choose_pool_mib(20'000, pool_mib_default), 18'000U);
}

TEST(PoolSize, TooSmallIsSaid) {
  EXPECT_EQ(choose_pool_mib(100, pool_mib_default).error().code, Code::exhausted);
  EXPECT_FALSE(choose_pool_mib(200'000, pool_mib_min - 1));
  EXPECT_TRUE(choose_pool_mib(200'000, pool_mib_min));
}

}  // namespace
}  // namespace space::priv
