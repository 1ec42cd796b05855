#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/clock.h"

namespace space::cli {

namespace {

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string line_of(const Row& row, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    line += i + 1 == row.size() ? row[i] : padded(row[i], widths[i]) + "  ";
  }
  return line;
}

// Bytes of the character at the beginning of `text`, if it is one that is not seen but changes what is: the
// control characters U+0080 to U+009F, marks without width and those that turn the writing around.
std::size_t hidden_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) == 0xc2) return byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
  if (byte(0) == 0xef) return byte(1) == 0xbb && byte(2) == 0xbf ? 3 : 0;
  if (byte(0) != 0xe2) return 0;
  const bool marks =
      byte(1) == 0x80 && ((byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xa8 && byte(2) <= 0xae));
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa0 && byte(2) <= 0xaf;
  return marks || isolates ? 3 : 0;
}

}  // namespace

std::vector<std::string> table_lines(const Row& header, std::vector<Row> rows) {
  for (Row& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<std::size_t> widths;
  for (const std::string& title : header) widths.push_back(title.size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::vector<std::string> lines = {line_of(header, widths)};
  for (const Row& row : rows) lines.push_back(line_of(row, widths));
  return lines;
}

void print_table(const Row& header, std::vector<Row> rows) {
  for (const std::string& line : table_lines(header, std::move(rows))) print_line(line);
}

void print_json(const Json& value) {
  fmt::print("{}\n", to_text(value));
}
void print_line(std::string_view text) {
  fmt::print("{}\n", text);
}

void note(std::string_view text) {
  fmt::print(stderr, "{}\n", text);
}

void note_on_terminal(std::string_view text) {
  fmt::print(stderr, "\r\nspace: {}\r\n", text);
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t hidden = hidden_character(text.substr(i));
    // Of two bytes the last one is the character's number.
    for (std::size_t k = hidden == 2 ? 1 : 0; k < hidden; ++k)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    if (hidden > 0) {
      i += hidden - 1;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

void print_error(const Error& error) {
  const bool color = ::isatty(STDERR_FILENO) == 1;
  fmt::print(stderr, "{}space:{} {}\n", color ? "\x1b[31m" : "", color ? "\x1b[0m" : "",
             printable(error.message));
}

int exit_code_of(const Error& error) {
  return error.code == Code::invalid_argument || error.code == Code::unauthenticated ? exit_usage
                                                                                     : exit_failed;
}

int report(const Error& error) {
  print_error(error);
  return exit_code_of(error);
}

std::string duration_text(std::int64_t seconds) {
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 7200) return fmt::format("{}m", seconds / 60);
  if (seconds < 172800) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

std::string age(std::string_view rfc3339) {
  std::tm time{};
  if (::strptime(std::string(rfc3339).c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return "?";
  const auto then = ::timegm(&time);
  return duration_text(
      std::max<std::int64_t>(0, system_clock().wall().time_since_epoch().count() / 1000 - then));
}

}  // namespace space::cli
