#include "base/crc32.h"

#include <array>

namespace space {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320;  // bit-reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr auto table = make_table();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t value = ~std::uint32_t{0};
  for (const std::byte b : bytes) value = (value >> 8) ^ table[(value ^ static_cast<std::uint8_t>(b)) & 0xFF];
  return ~value;
}

}  // namespace space
