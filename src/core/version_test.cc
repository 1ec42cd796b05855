#include "core/version.h"

#include <gtest/gtest.h>

namespace space {
namespace {

TEST(Version, IsComparedNumberByNumber) {
  EXPECT_TRUE(is_newer("0.10.0", "0.9.7"));
  EXPECT_TRUE(is_newer("1", "0.99"));
  EXPECT_TRUE(is_newer("0.1.1", "0.1"));
  EXPECT_TRUE(is_newer("0.1.0", "fake"));
  for (const auto& [version, than] :
       std::initializer_list<std::pair<const char*, const char*>>{{"0.1.0", "0.1.0"},
                                                                  {"0.1", "0.1.0"},
                                                                  {"0.9.7", "0.10.0"},
                                                                  {"", ""},
                                                                  {"x", "y"},
                                                                  {"fake", "0.1"},
                                                                  {"", "0.1"}})
    EXPECT_FALSE(is_newer(version, than)) << version << " " << than;
}

}  // namespace
}  // namespace space
