#include "core/tenancy.h"

#include <gtest/gtest.h>

namespace space {
namespace {

constexpr auto tcg = MachineAccelerator::tcg;
constexpr auto kvm = MachineAccelerator::kvm;

TEST(Tenancy, UnderKvmTeamsShareANode) {
  EXPECT_TRUE(admit_team("a", {}, kvm, false));
  EXPECT_TRUE(admit_team("a", {"a", "b"}, kvm, false));
}

TEST(Tenancy, UnderTcgANodeIsOneTeams) {
  EXPECT_TRUE(admit_team("a", {}, tcg, false));
  EXPECT_TRUE(admit_team("a", {"a"}, tcg, false));
  EXPECT_FALSE(admit_team("a", {"b"}, tcg, false));
  EXPECT_FALSE(admit_team("a", {"a", "b"}, tcg, false));
  EXPECT_FALSE(admit_team("a", {""}, tcg, false));  // a team nobody knows is another one
  EXPECT_FALSE(admit_team("a", {"A"}, tcg, false));
}

TEST(Tenancy, TheSwitchOpensIt) {
  EXPECT_TRUE(admit_team("a", {"b"}, tcg, true));
}

TEST(Tenancy, TheRefusalSaysWhatToChange) {
  const auto refused = admit_team("a", {"b"}, tcg, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied);
  for (const char* word : {"TCG", "KVM", "allow_tcg_multitenant = true"})
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << word;
  EXPECT_EQ(refused.error().message.find("team b"), std::string::npos) << "no other team is named";
}

}  // namespace
}  // namespace space
