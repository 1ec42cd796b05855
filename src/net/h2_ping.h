// The number a PING of H2Engine carries. Private to h2_*.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace space {

// As H2Engine::ping wrote it; of a peer's own ping, anything.
inline std::uint64_t ping_number(const std::uint8_t* payload) {
  std::uint64_t number = 0;
  std::memcpy(&number, payload, sizeof number);
  return number;
}

// Of a PING, as it goes out: nghttp2 tells of a frame that was sent only when it is asked for the next.
inline std::optional<std::uint64_t> ping_in(std::span<const std::uint8_t> frame) {
  constexpr std::size_t head = 9;
  if (frame.size() != head + 8 || frame[3] != NGHTTP2_PING || (frame[4] & NGHTTP2_FLAG_ACK) != 0) return {};
  return ping_number(frame.data() + head);
}

}  // namespace space
