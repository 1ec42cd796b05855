#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/gzip.h"

// The first byte chooses the size of the pieces. A decompressor never takes or gives more than it was
// offered, and ends: each step either moves on or says that it needs more.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] % 64 + 1;
  std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  std::array<std::byte, 256> out;
  space::guest::Decompressor decompressor;
  for (int i = 0; i < 100'000; ++i) {
    const auto in = body.first(std::min(step, body.size()));
    const auto progress = decompressor.decompress(in, out);
    if (!progress) return 0;
    if (progress->consumed > in.size() || progress->produced > out.size()) std::abort();
    if (progress->produced < out.size() && progress->consumed != in.size()) std::abort();
    body = body.subspan(progress->consumed);
    if (body.empty() && progress->produced < out.size()) return 0;
  }
  return 0;
}
