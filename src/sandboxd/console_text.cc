#include "sandboxd/console_text.h"

#include <fmt/core.h>

namespace space {

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F: the other controls
      result += fmt::format("\\x{:02x}", next);
      ++i;
    } else if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text[i];
    }
  }
  return result;
}

namespace {

// No more than `limit` bytes, and no character cut in half.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

}  // namespace

ConsoleText::Lines ConsoleText::feed(std::string_view piece) {
  Lines result;
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    const std::size_t room = line_bytes_max - std::min(line_bytes_max, unfinished_.size());
    unfinished_ += cut(part, room);
    piece.remove_prefix(std::min(part.size() + 1, piece.size()));
    if (end == std::string_view::npos) break;
    while (unfinished_.ends_with('\r')) unfinished_.pop_back();
    if (!unfinished_.empty()) result.lines.push_back(printable(unfinished_));
    unfinished_.clear();
  }
  if (result.lines.size() > lines_max) {
    result.dropped = result.lines.size() - lines_max;
    result.lines.erase(result.lines.begin(),
                       result.lines.begin() + static_cast<std::ptrdiff_t>(result.dropped));
  }
  return result;
}

}  // namespace space
