#include "guest/metrics.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

double cpu_pct(const JsonObject& figures) {
  return figures.at("cpu_used_pct").as_double();
}

TEST(Metrics, CpuUseIsThatSinceTheCallBefore) {
  Metrics metrics;
  const GuestStats first{.cpu_count = 2, .cpu_used_us = 5'000'000};
  EXPECT_EQ(cpu_pct(metrics.describe(first, seconds(10), Wall())), 25.0);  // since boot
  GuestStats second = first;
  second.cpu_used_us += 1'000'000;
  EXPECT_EQ(cpu_pct(metrics.describe(second, seconds(11), Wall())), 50.0);
  second.cpu_used_us += 10'000;
  EXPECT_EQ(cpu_pct(metrics.describe(second, seconds(11) + microseconds(10'000), Wall())), 50.0)
      << "too soon";
  EXPECT_EQ(cpu_pct(metrics.describe(second, seconds(12), Wall())), 0.5) << "of the whole second";
  EXPECT_EQ(cpu_pct(metrics.describe(first, seconds(13), Wall())), 0.0) << "never below nothing";
}

TEST(Metrics, OfThisMachine) {
  const auto figures = Metrics().read();
  ASSERT_TRUE(figures) << figures.error().message;
  for (const char* name : {"ts", "cpu_count", "cpu_used_pct", "mem_total", "mem_used", "mem_cache",
                           "mem_total_mib", "mem_used_mib", "disk_used", "disk_total"})
    EXPECT_TRUE(figures->contains(name)) << name;
  EXPECT_EQ(figures->at("mem_total_mib").to_number<std::uint64_t>(),
            figures->at("mem_total").to_number<std::uint64_t>() / (1024 * 1024));
}

}  // namespace
}  // namespace space::guest
