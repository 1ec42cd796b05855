// ConsoleText: a guest's console as lines that are safe to store and print. Hostile text: control characters
// become their escapes, lines and their number are bounded. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace space {

class ConsoleText {
 public:
  static constexpr std::size_t line_bytes_max = 1024;
  static constexpr std::size_t lines_max = 200;  // of one piece; of more the newest are kept

  struct Lines {
    std::vector<std::string> lines;
    std::size_t dropped = 0;
  };
  // The lines `piece` completes. An unfinished last one waits for the next piece.
  Lines feed(std::string_view piece);

 private:
  std::string unfinished_;
};

// Valid UTF-8 stays; what could steer a terminal is spelt out: "\x1b".
std::string printable(std::string_view text);

}  // namespace space
