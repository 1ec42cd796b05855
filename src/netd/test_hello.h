// For tests: what a guest says first, as bytes: of TLS, and of DNS over TCP.
#pragma once

#include <string>
#include <string_view>

namespace space::netd {

inline std::string length_and(std::string_view content, unsigned bytes) {
  std::string out;
  for (unsigned i = bytes; i-- > 0;) out += static_cast<char>(content.size() >> (8 * i) & 0xff);
  return out += content;
}

// Of type A; `name` as labels.
inline std::string dns_question_over_tcp(std::string_view name) {
  return length_and(std::string("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12) + std::string(name) +
                        std::string("\x00\x00\x01\x00\x01", 5),
                    2);
}

// One record; `names`: of the server, none of them: no such extension.
inline std::string client_hello(std::initializer_list<std::string_view> names, std::size_t padding = 0) {
  std::string extensions;
  std::string list;
  for (const std::string_view name : names) list += std::string(1, '\0') + length_and(name, 2);
  if (names.size() > 0) extensions = std::string(2, '\0') + length_and(length_and(list, 2), 2);
  if (padding > 0) extensions += std::string("\0\x15", 2) + length_and(std::string(padding, '\0'), 2);
  std::string body("\x03\x03");
  body += std::string(32, 'r') + length_and("session", 1) + length_and("\x13\x01", 2) +
          length_and(std::string(1, '\0'), 1) + length_and(extensions, 2);
  return "\x16\x03\x01" + length_and("\x01" + length_and(body, 3), 2);
}

}  // namespace space::netd
