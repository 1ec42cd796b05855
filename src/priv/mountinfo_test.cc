#include "priv/mountinfo.h"

#include <gtest/gtest.h>

namespace space::priv {
namespace {

constexpr std::string_view text =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "90 27 7:0 / /var/lib/my\\040pool rw,noatime - btrfs /dev/loop0 rw,space_cache=v2\n"
    "91 90 7:1 / /var/lib/my\\040pool rw - tmpfs none rw\n";

TEST(Mountinfo, ReadsEveryLineWithAndWithoutOptionalFields) {
  const auto mounts = parse_mountinfo(text);
  ASSERT_EQ(mounts.size(), 5U);
  EXPECT_EQ(mounts[1].point, "/");
  EXPECT_EQ(mounts[1].type, "ext4");
  EXPECT_EQ(mounts[1].source, "/dev/vda");
  EXPECT_EQ(mounts[1].options, "rw,discard");
  EXPECT_EQ(mounts[2].options, "rw,memory");
}

TEST(Mountinfo, FindsTheTopOfAStackByItsUnescapedPoint) {
  const auto mounts = parse_mountinfo(text);
  const Mount* found = mounted_at(mounts, "/var/lib/my pool");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->type, "tmpfs");
  EXPECT_EQ(mounted_at(mounts, "/var/lib"), nullptr);
}

TEST(Mountinfo, LeavesOutLinesThatAreCutOff) {
  EXPECT_TRUE(parse_mountinfo("").empty());
  EXPECT_TRUE(parse_mountinfo("22 27 0:21 / /proc rw,relatime -\n").empty());
  EXPECT_TRUE(parse_mountinfo("22 27 0:21 / /proc rw,relatime - proc proc\n").empty());
  EXPECT_TRUE(parse_mountinfo("- - - - - - -\n\\04").empty());
}

TEST(Mountinfo, AnOptionIsAWholeWord) {
  EXPECT_TRUE(has_option("rw,cpu,cpuacct", "cpu"));
  EXPECT_FALSE(has_option("rw,cpuset", "cpu"));
  EXPECT_FALSE(has_option("", "cpu"));
}

}  // namespace
}  // namespace space::priv
