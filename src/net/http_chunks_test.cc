#include "net/http_chunks.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace space::http {
namespace {

// Decodes `bytes` fed in steps of `step` into an output of `room` bytes at a time.
Result<std::string> decode(std::string_view bytes, std::size_t step, std::size_t room,
                           std::string* rest = nullptr) {
  ChunkDecoder decoder;
  std::string decoded;
  std::vector<std::byte> out(room);
  std::size_t begin = 0;
  std::size_t end = 0;
  while (!decoder.done()) {
    SPACE_TRY(const auto progress, decoder.decode(bytes.substr(begin, end - begin), out));
    begin += progress.consumed;
    decoded += as_text(std::span(out).first(progress.produced));
    if (progress.consumed > 0 || progress.produced > 0) continue;
    if (end == bytes.size() && !decoder.done()) return fail(Code::unavailable, "short");
    end = std::min(end + step, bytes.size());
  }
  if (rest != nullptr) *rest = bytes.substr(begin);
  return decoded;
}

TEST(ChunkDecoder, WhateverTheSplit) {
  const std::string bytes =
      "5\r\nhello\r\n"
      "0a;name=value;q=\"x y\"\r\n, wonders!\r\n"
      "000\r\nTrailer: dropped\r\nOther: too\r\n\r\n"
      "GET / next";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    for (const std::size_t room : {1U, 3U, 4096U}) {
      std::string rest;
      const auto decoded = decode(bytes, step, room, &rest);
      ASSERT_TRUE(decoded) << decoded.error().message;
      EXPECT_EQ(*decoded, "hello, wonders!");
      EXPECT_EQ(rest, "GET / next");
    }
  }
}

TEST(ChunkDecoder, Refusals) {
  for (const std::string_view bytes :
       {"x\r\n", "5\r\nhelloX\r\n", "5\nhello\r\n", "-1\r\n", "fffffffffffffffff\r\nx",
        "5 \r\nhello\r\n0\r\n\r\n", "\r\n\r\n", "1\r\na\n0\r\n\r\n", "5;a\nhello", "0\r\nA: b\r\n c\r\n\r\n",
        "0\r\nA: \x01\r\n\r\n"}) {
    for (const std::size_t step : {std::size_t{1}, bytes.size()}) {
      const auto decoded = decode(bytes, step, 100);
      ASSERT_FALSE(decoded) << bytes << " -> " << *decoded;
      EXPECT_EQ(decoded.error().code, Code::invalid_argument) << bytes;
    }
  }
}

TEST(ChunkDecoder, SizesUpTo64Bits) {
  ChunkDecoder decoder;
  EXPECT_TRUE(decoder.decode("ffffffffffffffff\r\n", {}));
  ChunkDecoder larger;
  EXPECT_FALSE(larger.decode("10000000000000000\r\n", {}));
}

TEST(ChunkDecoder, WhatIsDroppedIsLimited) {
  ChunkDecoder extension;
  EXPECT_EQ(extension.decode("5;" + std::string(100'000, 'x'), {}).error().code, Code::exhausted);
  ChunkDecoder trailer;
  std::string fields = "0\r\n";
  for (int i = 0; i < 10'000; ++i) fields += "A: b\r\n";
  EXPECT_EQ(trailer.decode(fields, {}).error().code, Code::exhausted);
}

}  // namespace
}  // namespace space::http
