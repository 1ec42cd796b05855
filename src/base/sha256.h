// SHA-256 (FIPS 180-4). Small and without a library, because the guest's daemon is one static file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace space {

// A copy goes on from where the original was: texts with the same beginning share its cost.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  Digest finish() const;  // of all so far; more may be added afterwards

 private:
  static constexpr std::size_t block_bytes = 64;
  void take_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_bytes> pending_{};
  std::uint64_t length_ = 0;  // bytes
};

std::string sha256_hex(std::string_view text);  // 64 lower-case digits

}  // namespace space
