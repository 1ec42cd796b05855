// Versions of our own programs: numbers with dots between them. Pure.
#pragma once

#include <charconv>
#include <string_view>

namespace space {

// Number by number; what is missing is 0, and what is no number ends the comparison: "0.10" is newer than
// "0.9.7". A version that begins with no number is older than every one that does.
inline bool is_newer(std::string_view version, std::string_view than) {
  const auto take = [](std::string_view& text) -> long {
    long number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) {
      const bool ended = text.empty();
      text = {};
      return ended ? 0 : -1;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with('.')) text.remove_prefix(1);
    return number;
  };
  while (!version.empty() || !than.empty()) {
    const long a = take(version), b = take(than);
    if (a != b) return a > b;
  }
  return false;
}

}  // namespace space
