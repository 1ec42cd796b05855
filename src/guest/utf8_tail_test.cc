#include "guest/utf8_tail.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace space::guest {
namespace {

std::size_t unfinished(std::string_view text) {
  return unfinished_utf8(as_bytes(text));
}

TEST(Utf8Tail, KnowsTheBeginningOfACharacter) {
  EXPECT_EQ(unfinished(""), 0u);
  EXPECT_EQ(unfinished("abc"), 0u);
  EXPECT_EQ(unfinished("é"), 0u);
  EXPECT_EQ(unfinished("ab\xc3"), 1u);
  EXPECT_EQ(unfinished("ab\xe2\x86"), 2u);
  EXPECT_EQ(unfinished("ab\xf0\x9f\x99"), 3u);
  EXPECT_EQ(unfinished("\xf0\x9f\x99\x82"), 0u);
  EXPECT_EQ(unfinished("\xf0"), 1u);
}

TEST(Utf8Tail, BytesThatCannotBecomeACharacterAreNotHeld) {
  for (const std::string_view text : {"\x80", "\xbf\xbf\xbf", "a\x80", "\xc0", "\xc1", "\xf5", "\xff",
                                      "é\x80", "\xe0\x80", "\xed\xa0", "\xf0\x80", "\xf4\x90", "\xc3\x28"})
    EXPECT_EQ(unfinished(text), 0u);
}

// Feeds `text` in the pieces of the given size.
std::vector<std::string> pieces(std::string_view text, std::size_t size) {
  Utf8Tail tail;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size(); i += size) {
    const std::string piece(text.substr(i, size));
    Bytes buffer(Utf8Tail::size_max + piece.size());
    std::ranges::copy(as_bytes(piece), buffer.begin() + Utf8Tail::size_max);
    out.emplace_back(as_text(tail.join(buffer)));
  }
  out.emplace_back(as_text(tail.take()));
  EXPECT_TRUE(tail.empty());
  return out;
}

TEST(Utf8Tail, EveryPieceOfTextIsWholeCharacters) {
  const std::string text = "żółć→日本🙂 plain";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    std::string all;
    for (const std::string& piece : pieces(text, size)) {
      EXPECT_EQ(unfinished(piece), 0u);
      EXPECT_TRUE(piece.empty() || (static_cast<unsigned char>(piece[0]) & 0xC0) != 0x80) << size;
      all += piece;
    }
    EXPECT_EQ(all, text);
  }
}

TEST(Utf8Tail, OtherBytesPassUnchangedAndInOrder) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>((i * 7 + i / 256) & 0xFF);
  for (const std::size_t size : {1u, 2u, 3u, 5u, 64u, 4096u}) {
    std::string all;
    for (const std::string& piece : pieces(bytes, size)) all += piece;
    EXPECT_EQ(all, bytes);
  }
}

TEST(Utf8Tail, AnUnfinishedCharacterIsGivenUpAtTheEnd) {
  EXPECT_EQ(pieces("ab\xe2\x86", 4).back(), "\xe2\x86");
}

}  // namespace
}  // namespace space::guest
