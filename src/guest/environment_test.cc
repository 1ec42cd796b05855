#include "guest/environment.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

const User user{.name = "user", .uid = 1000, .gid = 1000, .home = "/home/user", .groups = {}};

TEST(Environment, LaterLayersWin) {
  const Environment result =
      build_environment(default_path, user, {{"A", "sandbox"}, {"B", "sandbox"}, {"USER", "x"}},
                        {{"B", "request"}, {"PATH", "/bin"}});
  EXPECT_EQ(result, (Environment{{"PATH", "/bin"},
                                 {"HOME", "/home/user"},
                                 {"USER", "x"},
                                 {"LOGNAME", "user"},
                                 {"E2B_SANDBOX", "true"},
                                 {"A", "sandbox"},
                                 {"B", "request"}}));
}

TEST(Environment, UnusableVariablesAreDropped) {
  const Environment request{
      {"", "x"}, {"A=B", "x"}, {std::string("N\0", 2), "x"}, {"V", std::string("\0", 1)}, {"OK", ""}};
  const Environment result = build_environment("", user, {}, request);
  EXPECT_EQ(result.size(), 6U);
  EXPECT_TRUE(result.contains("OK"));
  const auto assignments = to_assignments({{"A", "1"}});
  EXPECT_EQ(assignments, std::vector<std::string>{"A=1"});
}

TEST(Paths, AreResolvedAgainstTheHome) {
  const auto resolve = [](std::string_view path, std::string_view workdir = "") {
    return resolve_path(path, user, workdir).value();
  };
  EXPECT_EQ(resolve(""), "/home/user");
  EXPECT_EQ(resolve("", "/work"), "/work");
  EXPECT_EQ(resolve("~"), "/home/user");
  EXPECT_EQ(resolve("~/a"), "/home/user/a");
  EXPECT_EQ(resolve("a/./b/../c"), "/home/user/a/c");
  EXPECT_EQ(resolve("/a//b/"), "/a/b");
  EXPECT_EQ(resolve("/../.."), "/");
  EXPECT_EQ(resolve("../../../.."), "/");
  EXPECT_EQ(resolve_path("~bob", user, "").error().code, Code::invalid_argument);
  EXPECT_EQ(resolve_path(std::string_view("a\0b", 3), user, "").error().code, Code::invalid_argument);
}

TEST(Executables, AreSearchedInPathUnlessTheyNameAFolder) {
  EXPECT_EQ(executable_candidates("ls", "/a::/b"), (std::vector<std::string>{"/a/ls", "/b/ls"}));
  EXPECT_EQ(executable_candidates("./ls", "/a"), std::vector<std::string>{"./ls"});
  EXPECT_TRUE(executable_candidates("ls", "").empty());
}

TEST(Paths, OfClientsAreDecoded) {
  EXPECT_EQ(*resolve_path("/a\xEE\xBF\xBF/b", User(), ""), "/a\xFF/b");
  EXPECT_FALSE(resolve_path(std::string_view("/a\0b", 4), User(), ""));
}

}  // namespace
}  // namespace space::guest
