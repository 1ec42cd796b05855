#include "base/path_text.h"

#include "base/json_text.h"

namespace space {

namespace {

constexpr std::size_t shown_bytes = 300;
constexpr std::size_t escape_bytes = 3;

// U+EF80 to U+EFFF are EE BE 80 to EE BF BF: the last two bytes of the form hold the byte that is meant.
void append_escaped(std::string& text, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  text += '\xEE';
  text += value < 0xC0 ? '\xBE' : '\xBF';
  text += static_cast<char>(value < 0xC0 ? value : value - 0x40);
}

bool is_escape(std::string_view text) {
  return text.size() >= escape_bytes && text[0] == '\xEE' && (text[1] == '\xBE' || text[1] == '\xBF') &&
         utf8_length(text) == escape_bytes;
}

char escaped_byte(std::string_view escape) {
  const auto last = static_cast<unsigned char>(escape[2]);
  return static_cast<char>(escape[1] == '\xBE' ? last : last + 0x40);
}

}  // namespace

std::string text_of_path(std::string_view path) {
  std::string text;
  text.reserve(path.size());
  while (!path.empty()) {
    const std::size_t length = utf8_length(path);
    if (length > 0 && !is_escape(path)) {
      text += path.substr(0, length);
      path.remove_prefix(length);
    } else {  // no character, or one that would be read as a byte
      append_escaped(text, path.front());
      path.remove_prefix(1);
    }
  }
  return text;
}

std::string path_of_text(std::string_view text) {
  std::string path;
  path.reserve(text.size());
  while (!text.empty()) {
    const bool escape = is_escape(text);
    path += escape ? escaped_byte(text) : text.front();
    text.remove_prefix(escape ? escape_bytes : 1);
  }
  return path;
}

std::string shown_path(std::string_view path) {
  if (path.size() <= shown_bytes) return text_of_path(path);
  return text_of_path(path.substr(0, shown_bytes)) + "…";
}

}  // namespace space
