#include "net/frame_scan.h"

#include <algorithm>

namespace space {
namespace {

constexpr int length_bytes = 3;
constexpr int header_bytes = 9;

}  // namespace

std::size_t FrameScan::take(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  while (at < bytes.size() && !ended_) {
    if (left_ > 0) {
      const std::size_t count = std::min(left_, bytes.size() - at);
      left_ -= count;
      at += count;
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(bytes[at]);
    // No session of ours allows a frame of 64 KiB or more (SETTINGS_MAX_FRAME_SIZE stays 16 KiB).
    ended_ = header_bytes_ == 0 && byte != 0;
    if (ended_) break;
    if (header_bytes_ < length_bytes) length_ = length_ << 8U | byte;
    ++at;
    if (++header_bytes_ < header_bytes) continue;
    left_ = length_;
    length_ = 0;
    header_bytes_ = 0;
  }
  return at;
}

}  // namespace space
