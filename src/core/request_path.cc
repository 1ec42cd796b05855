#include "core/request_path.h"

#include <algorithm>

namespace space {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'f');
}

bool is_encoded(std::string_view at, std::string_view digits) {
  return at.size() >= 3 && at[0] == '%' && at[1] == digits[0] && lower(at[2]) == digits[1];
}

bool is_plain(std::string_view path) {
  if (!path.starts_with('/')) return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string_view rest = path.substr(i);
    const char c = path[i];
    if (c <= ' ' || c > '~' || c == '\\' || c == '?' || c == '#') return false;
    if (c == '%' && (rest.size() < 3 || !is_hex(rest[1]) || !is_hex(rest[2]))) return false;
    if (is_encoded(rest, "2e") || is_encoded(rest, "2f") || is_encoded(rest, "5c") || is_encoded(rest, "00"))
      return false;
    // A percent sign that is encoded itself: decoded twice it hides any of these.
    if (is_encoded(rest, "25")) return false;
    // With parameters ("/..;x/") too, which some servers cut off first.
    if (c == '/' && (rest.starts_with("//") || rest.starts_with("/./") || rest.starts_with("/../") ||
                     rest.starts_with("/.;") || rest.starts_with("/..;") || rest == "/." || rest == "/.."))
      return false;
  }
  return true;
}

}  // namespace

bool path_matches(std::span<const std::string> patterns, std::string_view path) {
  if (!is_plain(path)) return false;
  return std::ranges::any_of(patterns, [path](std::string_view pattern) {
    if (pattern.ends_with('*')) return path.starts_with(pattern.substr(0, pattern.size() - 1));
    return path == pattern;
  });
}

}  // namespace space
