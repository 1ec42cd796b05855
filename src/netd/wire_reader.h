// Reads big-endian fields from hostile bytes. A read past the end fails this reader for good and answers
// zeros, so that a parser asks `ok` once, where it would act on what it read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace space::netd {

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }

  std::span<const std::byte> take(std::size_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u24() { return number(3); }
  std::uint32_t u32() { return number(4); }

  // A field that says its own length first, in one or two bytes.
  std::span<const std::byte> field8() { return take(u8()); }
  std::span<const std::byte> field16() { return take(u16()); }

 private:
  std::uint32_t number(std::size_t size) {
    std::uint32_t value = 0;
    for (const std::byte byte : take(size)) value = value << 8 | std::to_integer<std::uint32_t>(byte);
    return value;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace space::netd
