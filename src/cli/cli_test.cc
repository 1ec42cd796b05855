#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/config_file.h"
#include "cli/doctor.h"
#include "cli/settings.h"

namespace space::cli {
namespace {

class FakeRoot : public testing::Test {
 protected:
  FakeRoot() {
    char folder[] = "/tmp/space_cli_XXXXXX";
    root_ = mkdtemp(folder);
    put("/proc/filesystems", "nodev\tproc\n\tbtrfs\n");
    put("/proc/cgroups", "memory\t1\npids\t1\n");
    put("/proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8000000 kB\n");
    put("/etc/passwd",
        "root:x:0:0::/root:/bin/sh\nspace-control:x:990:990::/:/\nspace-sandboxd:x:991:991::/:/\n");
    for (const char* file :
         {"/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/usr/bin/qemu-system-x86_64",
          "/usr/bin/mmdebstrap", "/sbin/mkfs.btrfs", "/sbin/mke2fs", "/var/lib/space/pool.img"})
      put(file, "");
    put("/proc/self/mounts", "/dev/loop0 /var/lib/space/pool btrfs rw 0 0\n");
  }
  ~FakeRoot() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void remove(const std::string& path) { std::filesystem::remove(root_ + path); }

  Finding finding(const std::string& check) {
    for (const Finding& found : examine_machine(root_, Directories{}))
      if (found.check == check) return found;
    ADD_FAILURE() << "no check named " << check;
    return {};
  }

  std::string root_;
};

TEST_F(FakeRoot, AWholeMachineHasNothingBad) {
  for (const Finding& found : examine_machine(root_, Directories{})) {
    if (found.check == "disk" || found.check == "root") continue;  // facts of the machine the test runs on
    EXPECT_EQ(found.verdict, Verdict::good) << found.check << ": " << found.seen;
    EXPECT_TRUE(found.advice.empty());
  }
}

TEST_F(FakeRoot, EachBreakIsFoundAndExplained) {
  struct Case {
    const char* check;
    const char* removed;
  };
  for (const Case& broken :
       {Case{"kvm", "/dev/kvm"}, Case{"tun", "/dev/net/tun"}, Case{"loop devices", "/dev/loop-control"},
        Case{"qemu", "/usr/bin/qemu-system-x86_64"}, Case{"mmdebstrap", "/usr/bin/mmdebstrap"},
        Case{"mkfs.btrfs", "/sbin/mkfs.btrfs"}, Case{"mke2fs", "/sbin/mke2fs"},
        Case{"btrfs", "/proc/filesystems"}, Case{"cgroups", "/proc/cgroups"}, Case{"memory", "/proc/meminfo"},
        Case{"users", "/etc/passwd"}, Case{"pool", "/var/lib/space/pool.img"}}) {
    remove(broken.removed);
    const Finding found = finding(broken.check);
    EXPECT_NE(found.verdict, Verdict::good) << broken.check;
    EXPECT_FALSE(found.advice.empty()) << broken.check;
  }
}

TEST_F(FakeRoot, AUserInTheRangeOfTheMachinesIsBad) {
  put("/etc/passwd", "root:x:0:0::/:/\nbob:x:200123:1::/:/\n");
  EXPECT_EQ(finding("uid range").verdict, Verdict::bad);
  EXPECT_NE(finding("uid range").seen.find("bob"), std::string::npos);
}

TEST_F(FakeRoot, ConfigFileSaysLineAndKey) {
  put("/c.toml", "state = \"/a\"\nlisten = \"127.0.0.1:9\"\n");
  EXPECT_EQ(read_config_file(root_ + "/c.toml")->state, "/a");
  EXPECT_TRUE(read_config_file(root_ + "/none")->state.empty());
  put("/c.toml", "pool_mib = 2048\nmemory_limit_mib = 8192\n");
  EXPECT_EQ(read_config_file(root_ + "/c.toml")->pool_mib, 2048);
  EXPECT_EQ(read_config_file(root_ + "/c.toml")->memory_limit_mib, 8192);
  for (const char* wrong : {"pool_mib = 0\n", "pool_mib = \"2048\"\n", "memory_limit_mib = -1\n"}) {
    put("/c.toml", wrong);
    EXPECT_NE(read_config_file(root_ + "/c.toml").error().message.find("line 1"), std::string::npos) << wrong;
  }
  put("/c.toml", "state = \"/a\"\nstat = 1\n");
  EXPECT_NE(read_config_file(root_ + "/c.toml").error().message.find("line 2: unknown setting 'stat'"),
            std::string::npos);
  put("/c.toml", "state = 1\n");
  EXPECT_FALSE(read_config_file(root_ + "/c.toml"));
  put("/c.toml", "state = \n");
  EXPECT_FALSE(read_config_file(root_ + "/c.toml"));
}

TEST(Settings, UrlIsHostAndPort) {
  EXPECT_EQ(parse_api_url("http://127.0.0.1:3000")->port, 3000);
  EXPECT_EQ(parse_api_url("http://localhost:81/")->host, "127.0.0.1");
  for (const char* wrong : {"", "https://a:1", "http://a", "http://:80", "http://a:x", "http://a:99999"})
    EXPECT_FALSE(parse_api_url(wrong)) << wrong;
}

}  // namespace
}  // namespace space::cli
