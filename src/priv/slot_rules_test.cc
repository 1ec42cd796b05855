#include "priv/slot_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fd.h"

namespace space::priv {
namespace {

// The whole text: what a guest can send anywhere is decided here, and a change is seen as one.
TEST(SlotRules, AreTheGoldenText) {
  const auto golden = read_file(SPACE_SOURCE_DIR "/src/priv/slot.nft", 64 << 10);
  ASSERT_TRUE(golden) << golden.error().message;
  EXPECT_EQ(slot_rules(0), *golden);
}

TEST(SlotRules, LimitsStandBesideThem) {
  const std::string limited = slot_rules(80);
  EXPECT_TRUE(limited.starts_with(slot_rules(0)));
  EXPECT_EQ(limited.substr(slot_rules(0).size()), R"(table netdev limits {
  chain ingress {
    type filter hook ingress device "tap0" priority -300; policy accept;
    limit rate over 10000000 bytes/second burst 1000000 bytes drop
  }
  chain egress {
    type filter hook egress device "tap0" priority -300; policy accept;
    limit rate over 10000000 bytes/second burst 1000000 bytes drop
  }
}
)");
}

TEST(SlotRules, AListingIsComparedWithoutItsLimits) {
  const std::string before = "table inet space {\n\tchain a {\n\t}\n}\n", after = "table netdev door {\n}\n";
  const auto limits = [](std::string_view of_egress) {
    return "table netdev limits {\n\tchain ingress {\n\t\ttype filter hook ingress device "
           "\"tap0\"\n\t\tlimit rate over 1 "
           "bytes/second drop\n\t}\n\n\tchain egress {\n\t\ttype filter hook egress device \"tap0\"\n\t\t" +
           std::string(of_egress) + "\n\t}\n}\n";
  };
  const ListedRules whole = without_limits(before + limits("limit rate over 1 bytes/second drop") + after);
  EXPECT_EQ(whole.text, before + after);
  EXPECT_TRUE(whole.limited);
  const ListedRules half = without_limits(before + limits("") + after);
  EXPECT_EQ(half.text, before + after);
  EXPECT_FALSE(half.limited);
  const ListedRules none = without_limits(before + after);
  EXPECT_EQ(none.text, before + after);
  EXPECT_FALSE(none.limited);
}

}  // namespace
}  // namespace space::priv
