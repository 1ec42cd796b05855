// HTTP/2 frames written by hand, for tests and fuzzers that play a peer nghttp2 would not let them be.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"

namespace space::h2_test {

inline constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr unsigned data = 0, headers = 1, rst_stream = 3, settings = 4, ping = 6, goaway = 7;
inline constexpr unsigned end_stream = 1, ack = 1, end_headers = 4;

inline std::string frame(unsigned type, unsigned flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  const auto put = [&out](std::size_t value, int bytes) {
    while (bytes-- > 0) out.push_back(static_cast<char>(value >> (8 * bytes)));
  };
  put(payload.size(), 3);
  put(type, 1);
  put(flags, 1);
  put(stream, 4);
  return out.append(payload);
}

// HPACK: a literal that is not indexed, its strings not compressed. Names and values below 127 bytes; a
// longer value takes the two-byte form (below 16 KiB).
inline std::string header(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out.push_back(static_cast<char>(name.size()));
  out.append(name);
  if (value.size() < 127) {
    out.push_back(static_cast<char>(value.size()));
  } else {
    std::size_t rest = value.size() - 127;
    out.push_back(127);
    for (; rest >= 128; rest >>= 7) out.push_back(static_cast<char>(rest % 128 + 128));
    out.push_back(static_cast<char>(rest));
  }
  return out.append(value);
}

inline std::string post(std::string_view path) {
  return header(":method", "POST") + header(":scheme", "http") + header(":path", path) +
         header(":authority", "space");
}
inline std::string connect(std::string_view authority) {
  return header(":method", "CONNECT") + header(":authority", authority);
}

}  // namespace space::h2_test
