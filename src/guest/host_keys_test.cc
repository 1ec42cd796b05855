#include "guest/host_keys.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "net/test_loop.h"

namespace space::guest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HostKeysTest : public LoopTest {
 protected:
  HostKeysTest() : table_(executor()) {
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
    if (const char* path_variable = std::getenv("PATH")) path_ = path_variable;
  }
  ~HostKeysTest() override { fs::remove_all(folder_); }

  Task<Result<void>> renew(std::string server = "/no/such/sshd") {
    HookSurroundings around{.table = table_, .path = path_};
    around.user.uid = ::getuid();
    around.user.gid = ::getgid();
    co_return co_await renew_host_keys(around, folder_, server);
  }
  std::string key(const std::string& kind) const {
    return read_file(folder_ / ("ssh_host_" + kind + "_key"), 1 << 16).value_or("");
  }
  void put(const std::string& kind) { std::ofstream(folder_ / ("ssh_host_" + kind + "_key")) << "copied"; }

  ProcessTable table_;
  fs::path folder_;
  std::string path_;
};

TEST_F(HostKeysTest, KeysThatWereThereAreMadeAnew) {
  ASSERT_EQ(::access("/usr/bin/ssh-keygen", X_OK), 0) << "no ssh-keygen";
  put("ed25519");
  put("ecdsa");
  run([&]() -> Task<void> {
    const auto renewed = co_await renew();
    EXPECT_TRUE(renewed) << renewed.error().message;
    EXPECT_THAT(key("ed25519"), HasSubstr("PRIVATE KEY"));
    EXPECT_THAT(key("ecdsa"), HasSubstr("PRIVATE KEY"));
    EXPECT_EQ(key("rsa"), "");
    const std::string first = key("ed25519");
    EXPECT_TRUE(co_await renew());
    EXPECT_NE(key("ed25519"), first);
  });
}

TEST_F(HostKeysTest, WithoutKeysOnlyAServerGetsSome) {
  ASSERT_EQ(::access("/usr/bin/ssh-keygen", X_OK), 0) << "no ssh-keygen";
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await renew());
    EXPECT_TRUE(fs::is_empty(folder_));
    EXPECT_TRUE(co_await renew("/bin/sh"));
    EXPECT_THAT(key("ed25519"), HasSubstr("PRIVATE KEY"));
  });
}

TEST_F(HostKeysTest, NoOldKeyStaysWhenNoneCanBeMade) {
  put("rsa");
  path_ = folder_;
  run([&]() -> Task<void> {
    EXPECT_EQ(key("rsa"), "copied");
    EXPECT_FALSE(co_await renew());
    EXPECT_EQ(key("rsa"), "");
  });
}

}  // namespace
}  // namespace space::guest
