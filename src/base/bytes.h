// Bytes and text: views, hex, base64, big-endian integers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace space {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string to_hex(std::span<const std::byte> bytes);     // lower case
std::string to_base64(std::span<const std::byte> bytes);  // standard alphabet, padded
std::optional<Bytes> from_base64(std::string_view text);  // padded or not; nullopt if malformed

std::uint32_t read_be32(std::span<const std::byte, 4> bytes);
void append_be32(Bytes& out, std::uint32_t value);

// Same running time whatever the content; false for different lengths.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace space
