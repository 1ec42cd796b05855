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
    // U+0080 to U+009F are control characters too.
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
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
