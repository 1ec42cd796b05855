// SandboxLog: what happened to one sandbox, and what its guest wrote to its console. In memory, bounded;
// console lines have a ring of their own, so that no guest can write its own history away.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/task.h"

namespace space {

enum class LogLevel : std::uint8_t { debug, info, warn, error };
std::string_view to_string(LogLevel level);
std::optional<LogLevel> log_level_from(std::string_view name);

enum class LogSource : std::uint8_t { node, console };

struct LogEntry {
  // Microseconds since 1970, unique and growing within a log: a time and a cursor in one, good across
  // restarts.
  std::uint64_t sequence = 0;
  LogLevel level = LogLevel::info;
  std::string message;
  std::vector<std::pair<std::string, std::string>> fields;
  std::size_t bytes() const;
};

struct LogQuery {
  std::uint64_t after = 0;
  std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
  std::size_t limit = 1000;
  bool backward = false;             // newest first
  LogLevel level = LogLevel::debug;  // and above
  std::string search;                // part of the message; "": any
};

struct LogPage {
  std::vector<LogEntry> entries;
  std::uint64_t next = 0;  // forward: ask `after` it for what follows; backward: ask `before` it
};

class SandboxLog {
 public:
  static constexpr std::size_t lines_max[] = {1000, 3000};  // by LogSource
  static constexpr std::size_t bytes_max[] = {256 * 1024, 768 * 1024};
  static constexpr std::size_t page_bytes_max = 512 * 1024;

  explicit SandboxLog(const Executor& executor, const Clock& clock = system_clock())
      : clock_(clock), appended_(executor) {}

  void append(LogSource source, LogLevel level, std::string message,
              std::vector<std::pair<std::string, std::string>> fields = {});
  LogPage select(const LogQuery& query) const;
  // Waits for anything new at all, at most until the deadline.
  Task<void> wait(Deadline deadline);

 private:
  struct Ring {
    std::deque<LogEntry> entries;
    std::size_t bytes = 0;
  };
  std::vector<const LogEntry*> ordered() const;

  const Clock& clock_;
  std::array<Ring, 2> rings_;
  std::uint64_t last_ = 0;
  Event appended_;
};

}  // namespace space
