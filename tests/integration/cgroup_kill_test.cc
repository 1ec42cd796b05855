// The slow way to kill a control group, on a real one.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "priv/cgroup.h"

namespace space::priv {
namespace {

TEST(CgroupKill, OneByOneReachesWhatForksMeanwhile) {
  const auto mounts = mounts_of_this_process();
  ASSERT_TRUE(mounts);
  const Mount* hierarchy = nullptr;
  for (const Mount& mount : *mounts)
    if (mount.type == "cgroup2" || (mount.type == "cgroup" && has_option(mount.options, "pids")))
      hierarchy = &mount;
  ASSERT_NE(hierarchy, nullptr);
  const std::string folder = hierarchy->point + "/space-kill-test-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::ofstream(folder + "/cgroup.procs") << 0;
    // A chain: each one forks the next and goes, for as long as it is let.
    for (int i = 0; i < 4; ++i) (void)::fork();
    for (;;) {
      if (::fork() != 0) ::_exit(0);
      ::usleep(200);
    }
  }
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(kill_one_by_one(folder));
  std::string left;
  std::ifstream(folder + "/cgroup.procs") >> left;
  EXPECT_EQ(left, "");
  while (::rmdir(folder.c_str()) != 0 && errno == EBUSY) ::usleep(1000);
}

}  // namespace
}  // namespace space::priv
