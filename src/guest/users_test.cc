#include "guest/users.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace space::guest {
namespace {

constexpr std::string_view passwd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "broken\n"
    "odd:x:none:0::/:/bin/sh\n"
    "user:x:1000:1000:,,,:/home/user:/bin/bash\n"
    "homeless:x:7:7:::\n";
constexpr std::string_view group = "root:x:0:\nsudo:x:27:other,user\nuser:x:1000:user\nbad:x:z:user\n";

TEST(Users, AreFoundWithTheirGroups) {
  const auto user = find_user(passwd, group, "user");
  ASSERT_TRUE(user);
  EXPECT_EQ(user->uid, 1000U);
  EXPECT_EQ(user->home, "/home/user");
  EXPECT_EQ(user->groups, (std::vector<gid_t>{1000, 27}));
  EXPECT_EQ(find_user(passwd, group, "homeless")->home, "/");
}

TEST(Users, MalformedLinesAndUnknownNamesAreNobody) {
  for (const char* name : {"", "broken", "odd", "use", "user:x", "nobody"})
    EXPECT_FALSE(find_user(passwd, group, name)) << name;
  EXPECT_TRUE(find_user("user:x:1:2", "", "user"));
  EXPECT_FALSE(find_user("user:x:1", "", "user"));
  EXPECT_FALSE(find_user("user:x:99999999999:2::/", "", "user"));
}

TEST(Users, AreReadAgainWhenTheFilesChange) {
  char folder[] = "/tmp/space-users-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  UserDatabase users(folder);
  EXPECT_EQ(users.find("user").error().code, Code::unauthenticated);
  EXPECT_EQ(users.find("user").error().message, "invalid username: 'user'");
  std::ofstream(std::string(folder) + "/passwd") << passwd;
  EXPECT_EQ(users.find("user")->uid, 1000U);
  std::ofstream(std::string(folder) + "/passwd") << "user:x:5:5::/home/five:\n";
  EXPECT_EQ(users.find("user")->home, "/home/five");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace space::guest
