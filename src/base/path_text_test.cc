#include "base/path_text.h"

#include <gtest/gtest.h>

#include "base/json_text.h"

namespace space {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

TEST(PathText, EveryNameLeadsBackToItself) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& name :
       {all, std::string("naïve 日本 🙂"), std::string("\xC3"), std::string("\xEE\xBE\x80"),
        std::string("\xEE\xBE"), std::string("\xED\xA0\x80"), std::string("\xFF\xFE/\xEE\xBF\xBF!"),
        std::string()}) {
    const std::string text = text_of_path(name);
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(path_of_text(text), name);
  }
}

TEST(PathText, EveryTwoBytesLeadBackToThemselves) {
  for (int first = 1; first < 256; ++first)
    for (int second = 1; second < 256; ++second) {
      const std::string name{static_cast<char>(first), static_cast<char>(second)};
      ASSERT_EQ(path_of_text(text_of_path(name)), name) << first << " " << second;
    }
}

TEST(PathText, TextIsLeftAlone) {
  EXPECT_EQ(text_of_path("/home/é/日本"), "/home/é/日本");
  EXPECT_EQ(text_of_path("a\xFF"), "a\xEE\xBF\xBF");
  EXPECT_EQ(text_of_path("\x80"), "\xEE\xBE\x80");
}

TEST(PathText, MessagesAreShort) {
  EXPECT_EQ(shown_path("/a\xFF"), "/a\xEE\xBF\xBF");
  EXPECT_LT(shown_path(std::string(100'000, 'x')).size(), 400U);
}

}  // namespace
}  // namespace space
