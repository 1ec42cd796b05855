#include "guest/gzip.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

Bytes gzip(std::string_view text) {
  return Compressor().compress(as_bytes(text), true);
}

std::string mixed_text(std::size_t size) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < size) {
    state = state * 1664525 + 1013904223;
    text += state >> 28 == 0 ? std::string(200, 'z') : std::string(1, static_cast<char>(state >> 24));
  }
  return text;
}

// Fed in pieces of `in_step` into room for `out_step`; "error" if it is refused or does not end.
std::string gunzip(std::span<const std::byte> body, std::size_t in_step, std::size_t out_step) {
  Decompressor decompressor;
  Bytes out(out_step);
  std::string text;
  while (true) {
    const auto in = body.first(std::min(in_step, body.size()));
    const auto progress = decompressor.decompress(in, out);
    if (!progress) return "error";
    body = body.subspan(progress->consumed);
    text += as_text(std::span(out).first(progress->produced));
    if (progress->produced < out.size() && body.empty()) return decompressor.complete() ? text : "error";
  }
}

TEST(Gzip, ComesBackWhateverThePieces) {
  const std::string text = mixed_text(300'000);
  Compressor compressor;
  Bytes compressed;
  for (std::size_t at = 0; at < text.size(); at += 7'001) {
    const Bytes piece = compressor.compress(as_bytes(std::string_view(text).substr(at, 7'001)), false);
    compressed.insert(compressed.end(), piece.begin(), piece.end());
  }
  const Bytes rest = compressor.compress({}, true);
  compressed.insert(compressed.end(), rest.begin(), rest.end());
  EXPECT_LT(compressed.size(), text.size());
  for (const auto& [in_step, out_step] :
       {std::pair(1U, 4096U), {1000U, 1U}, {100'000U, 65'536U}, {400'000U, 400'000U}})
    EXPECT_TRUE(gunzip(compressed, in_step, out_step) == text) << in_step << " " << out_step;
}

TEST(Gzip, SeveralMembersAreOneText) {
  Bytes two = gzip("one ");
  const Bytes second = gzip("two");
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(gunzip(two, 1, 64), "one two");
  EXPECT_EQ(gunzip(two, 1000, 64), "one two");
}

TEST(Gzip, WhatIsNotGzipIsRefused) {
  const Bytes good = gzip(mixed_text(10'000));
  EXPECT_EQ(gunzip(as_bytes("plain text that is no gzip"), 100, 100), "error");
  EXPECT_EQ(gunzip({}, 100, 100), "error");
  EXPECT_EQ(gunzip(std::span(good).first(good.size() - 1), 100, 100), "error");
  Bytes damaged = good;
  damaged[damaged.size() - 6] ^= std::byte{1};  // of the checksum
  EXPECT_EQ(gunzip(damaged, 100, 100), "error");
  Bytes trailed = good;
  trailed.push_back(std::byte{'x'});
  EXPECT_EQ(gunzip(trailed, 100, 100), "error");
}

TEST(Gzip, ABombGrowsOnlyAsFastAsItIsTaken) {
  const Bytes bomb = gzip(std::string(64 * 1024 * 1024, '\0'));
  EXPECT_LT(bomb.size(), 400'000U);
  Decompressor decompressor;
  Bytes out(1000);
  const auto progress = decompressor.decompress(bomb, out);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->produced, out.size());
  EXPECT_LT(progress->consumed, bomb.size());
}

}  // namespace
}  // namespace space::guest
