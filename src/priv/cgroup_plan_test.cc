#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "priv/cgroup.h"

namespace space::priv {
namespace {

using testing::ElementsAre;

Mount legacy(const char* point, const char* options) {
  return {point, "cgroup", "cgroup", options};
}
Mount unified(const char* point) {
  return {point, "cgroup2", "cgroup2", "rw"};
}

constexpr CgroupLimits limits{.memory_bytes = 1000, .pids = 65, .cpu_percent = 150};

TEST(CgroupPlan, UnifiedHierarchyWithAllControllers) {
  const auto found = choose_hierarchies({unified("/sys/fs/cgroup")}, "cpuset cpu io memory hugetlb pids\n");
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre(Hierarchy{"/sys/fs/cgroup", true, true, true, true}));
}

TEST(CgroupPlan, LegacyControllersBesideAnEmptyUnifiedHierarchy) {
  const auto found =
      choose_hierarchies({legacy("/c/cpu", "rw,cpu,cpuacct"), legacy("/c/cpuset", "rw,cpuset"),
                          legacy("/c/mem", "rw,memory"), legacy("/c/pids", "rw,pids"), unified("/c/u")},
                         "");
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre(Hierarchy{"/c/u", true}, Hierarchy{"/c/mem", false, true},
                                  Hierarchy{"/c/pids", false, false, true},
                                  Hierarchy{"/c/cpu", false, false, false, true}));
}

TEST(CgroupPlan, ControllersMountedTogetherAreOneHierarchy) {
  const auto found = choose_hierarchies({legacy("/c/all", "rw,memory,pids,cpu")}, "");
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre(Hierarchy{"/c/all", false, true, true, true}));
}

TEST(CgroupPlan, AMissingControllerIsNamed) {
  const auto found = choose_hierarchies({legacy("/c/mem", "rw,memory"), unified("/c/u")}, "cpuset hugetlb");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::unavailable);
  EXPECT_THAT(found.error().message, testing::HasSubstr("pids"));
}

TEST(CgroupPlan, UnifiedSettings) {
  EXPECT_THAT(settings_for({"/c", true, true, true, true}, limits),
              ElementsAre(CgroupSetting{"memory.max", "1000"}, CgroupSetting{"memory.swap.max", "0", true},
                          CgroupSetting{"memory.oom.group", "1"}, CgroupSetting{"pids.max", "65"},
                          CgroupSetting{"cpu.max", "150000 100000"}));
}

TEST(CgroupPlan, LegacySettingsLimitMemoryBeforeMemoryAndSwap) {
  EXPECT_THAT(
      settings_for({"/c", false, true, true, true}, limits),
      ElementsAre(CgroupSetting{"memory.limit_in_bytes", "1000"},
                  CgroupSetting{"memory.memsw.limit_in_bytes", "1000", true}, CgroupSetting{"pids.max", "65"},
                  CgroupSetting{"cpu.cfs_period_us", "100000"}, CgroupSetting{"cpu.cfs_quota_us", "150000"}));
}

TEST(CgroupPlan, AHierarchyWithoutControllersGetsNoSettings) {
  EXPECT_THAT(settings_for({"/c", true}, limits), ElementsAre());
}

TEST(CgroupPlan, InstancesOfDifferentDirectoriesNeverShareAName) {
  EXPECT_EQ(*instance_name("/run/space"), "run+space");
  EXPECT_NE(*instance_name("/run/space-2"), *instance_name("/run/space/2"));
  for (const auto* refused : {"", "/", "run", "/run/", "/run//a", "/run/a+b", "/run/a b", "/run/a\nb"})
    EXPECT_FALSE(instance_name(refused)) << refused;
  EXPECT_FALSE(instance_name("/" + std::string(300, 'a')));
}

TEST(CgroupPlan, ReadsACounter) {
  EXPECT_EQ(counter_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill"), 7U);
  EXPECT_EQ(counter_in("low 0\noom 3\noom_kill 2", "oom_kill"), 2U);
  EXPECT_EQ(counter_in("oom_kill", "oom_kill"), 0U);
  EXPECT_EQ(counter_in("oom_kill x", "oom_kill"), 0U);
  EXPECT_EQ(counter_in("", "oom_kill"), 0U);
}

}  // namespace
}  // namespace space::priv
