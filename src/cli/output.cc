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

void print_row(const Row& row, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    line += i + 1 == row.size() ? row[i] : padded(row[i], widths[i]) + "  ";
  }
  fmt::print("{}\n", line);
}

}  // namespace

void print_table(const Row& header, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& title : header) widths.push_back(title.size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  print_row(header, widths);
  for (const Row& row : rows) print_row(row, widths);
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

void print_error(const Error& error) {
  const bool color = ::isatty(STDERR_FILENO) == 1;
  fmt::print(stderr, "{}space:{} {}\n", color ? "\x1b[31m" : "", color ? "\x1b[0m" : "", error.message);
}

int exit_code_of(const Error& error) {
  return error.code == Code::invalid_argument || error.code == Code::unauthenticated ? exit_usage
                                                                                     : exit_failed;
}

std::string age(std::string_view rfc3339) {
  std::tm time{};
  if (::strptime(std::string(rfc3339).c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return "?";
  const auto then = ::timegm(&time);
  const auto seconds =
      std::max<std::int64_t>(0, system_clock().wall().time_since_epoch().count() / 1000 - then);
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 7200) return fmt::format("{}m", seconds / 60);
  if (seconds < 172800) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

}  // namespace space::cli
