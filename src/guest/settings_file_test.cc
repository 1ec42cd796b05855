#include "guest/settings_file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "net/test_loop.h"

namespace space::guest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class SettingsFileTest : public LoopTest {
 protected:
  SettingsFileTest() : state_(executor()) {
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
    path_ = folder_ / "space/init.json";
  }
  ~SettingsFileTest() override { fs::remove_all(folder_); }
  std::string text() const { return read_file(path_, 1 << 20).value_or(""); }

  fs::path folder_, path_;
  GuestState state_;
};

TEST_F(SettingsFileTest, WhatInitSetIsThereAfterTheNextBootButForTheToken) {
  state_.environment = {{"A", "1"}, {"B", "\x01\"ü"}};
  state_.default_user = "bob";
  state_.default_workdir = "/srv";
  state_.access_token = SecretText("never-on-a-disk");
  run([&]() -> Task<void> {
    SettingsFile file(executor(), state_, path_);
    EXPECT_EQ(file.load().error().code, Code::not_found);
    file.save_soon();
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_TRUE(co_await file.flush(soon()));
  });
  EXPECT_THAT(text(), HasSubstr("bob"));
  EXPECT_THAT(text(), Not(HasSubstr("never-on-a-disk")));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);

  GuestState next(executor());
  SettingsFile file(executor(), next, path_);
  EXPECT_TRUE(file.load());
  EXPECT_EQ(next.environment, state_.environment);
  EXPECT_EQ(next.default_user, "bob");
  EXPECT_EQ(next.default_workdir, "/srv");
  EXPECT_EQ(next.access_token.reveal(), "");
}

TEST_F(SettingsFileTest, ItIsWrittenByItselfAndOnlyWhenItChanged) {
  run([&]() -> Task<void> {
    SettingsFile file(executor(), state_, path_);
    file.save_soon();
    file.save_soon();
    for (int i = 0; i < 10'000 && !fs::exists(path_); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(fs::exists(path_));
    const auto inode = [&] {
      struct stat status{};
      EXPECT_EQ(::stat(path_.c_str(), &status), 0);
      return status.st_ino;
    };
    const Fd held = *open_fd(path_, O_RDONLY);  // its number is not given to another file
    const auto first = inode();
    file.save_soon();
    EXPECT_TRUE(co_await file.flush(soon()));
    EXPECT_EQ(inode(), first);
    state_.default_user = "other";
    file.save_soon();
    EXPECT_TRUE(co_await file.flush(soon()));
    EXPECT_NE(inode(), first);
  });
}

TEST_F(SettingsFileTest, NothingIsWrittenWhileTheDiskIsHeld) {
  run([&]() -> Task<void> {
    SettingsFile file(executor(), state_, path_);
    int asked = 0;
    bool held = true;
    file.hold_back([&] { return ++asked > 0 && held; });
    file.save_soon();
    for (int i = 0; i < 10'000 && asked < 2; ++i) co_await sleep_for(Millis(1));
    EXPECT_GE(asked, 2);
    EXPECT_FALSE(fs::exists(path_));
    held = false;
    for (int i = 0; i < 10'000 && !fs::exists(path_); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(fs::exists(path_));
  });
}

TEST_F(SettingsFileTest, ABrokenFileIsRefusedAndATokenInItIgnored) {
  EXPECT_EQ(parse_settings(R"({"version":1,"default_user":"bob"})")->default_user, "bob");
  for (const char* wrong :
       {"", "[]", R"({"default_user":"bob"})", R"({"version":2})", R"({"version":1,"env":{"A":1}})"})
    EXPECT_FALSE(parse_settings(wrong)) << wrong;
  EXPECT_FALSE(parse_settings(R"({"version":1,"access_token":"x"})")->access_token);
}

}  // namespace
}  // namespace space::guest
