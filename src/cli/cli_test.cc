#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/config_file.h"
#include "cli/settings.h"

namespace space::cli {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    char folder[] = "/tmp/space_cli_XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) { std::ofstream(root_ + path) << text; }

  std::string root_;
};

TEST_F(ConfigFileTest, SaysLineAndKey) {
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
  EXPECT_FALSE(read_config_file(root_ + "/none")->allow_tcg_multitenant);
  put("/c.toml", "allow_tcg_multitenant = true\n");
  EXPECT_TRUE(read_config_file(root_ + "/c.toml")->allow_tcg_multitenant);
  for (const char* wrong : {"1", "\"true\"", "[]"}) {
    put("/c.toml", std::string("allow_tcg_multitenant = ") + wrong + "\n");
    EXPECT_NE(read_config_file(root_ + "/c.toml").error().message.find("true or false"), std::string::npos)
        << wrong;
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
