#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iterator>

#include "base/clock.h"
#include "base/json_text.h"

namespace space::log {

namespace {

std::string_view g_process = "space";
std::atomic<Level> g_level{Level::info};

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
  }
  return "error";
}

void append_value(std::string& line,
                  const std::variant<std::string_view, std::int64_t, double, bool>& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) append_json_string(line, *text);
  if (const auto* number = std::get_if<std::int64_t>(&value))
    fmt::format_to(std::back_inserter(line), "{}", *number);
  if (const auto* number = std::get_if<double>(&value))
    fmt::format_to(std::back_inserter(line), "{:.3f}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) line += *flag ? "true" : "false";
}

}  // namespace

void init(std::string_view process) {
  g_process = process;
  const char* wanted = std::getenv("SPACE_LOG");
  if (wanted != nullptr && std::string_view(wanted) == "debug") g_level = Level::debug;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  std::string line = fmt::format(R"({{"ts":"{}","level":"{}","process":"{}","event":)",
                                 to_rfc3339(system_clock().wall()), name(level), g_process);
  append_json_string(line, event);
  for (const Field& field : fields) {
    line += ',';
    append_json_string(line, field.key());
    line += ':';
    append_value(line, field.value());
  }
  line += "}\n";
  // One write call: lines of several threads and processes on one pipe do not mix.
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace space::log
