// EgressLog: what one sandbox's guest asked for and what became of it, the newest entries only. Refusals
// alike, and questions for names, are counted: one entry at once and one every ten seconds, so that a guest
// that asks without end neither fills the memory nor hides what happened before. Pure but for its clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "core/egress_reason.h"

namespace space::netd {

enum class LogKind : unsigned char { dns, tcp, tls, http, policy };

struct LogEntry {
  LogKind kind = LogKind::tcp;
  std::string host;     // cut to the length of a name
  std::string address;  // text
  std::uint16_t port = 0;
  std::string method, path;  // of http; the path without its query
  bool allowed = false;
  EgressReason reason = EgressReason::no_policy;
  std::string rule;
  std::optional<std::uint64_t> bytes_in, bytes_out;  // at the end of a flow
  std::uint64_t generation = 0;
  // Set by the log.
  std::uint64_t sequence = 0;
  Wall at{};
  std::uint64_t count = 1;
};

JsonObject to_json(const LogEntry& entry);

class EgressLog {
 public:
  explicit EgressLog(const Clock& clock = system_clock()) : clock_(clock) {}

  void add(LogEntry entry);
  // As add, but of those alike only one in ten seconds. True: it became an entry now.
  bool add_counted(LogEntry entry);

  struct Page {
    std::vector<LogEntry> entries;
    std::uint64_t next = 0;  // what to ask for after it
    bool gap = false;        // entries before these were lost
  };
  // Those after sequence `after`, oldest first. Counted refusals whose ten seconds are over become entries.
  Page read(std::uint64_t after, std::size_t limit);
  std::uint64_t last() const { return last_; }

  static constexpr std::size_t entries_max = 2000;
  static constexpr std::size_t kinds_of_refusal_max = 512;

 private:
  struct Repeats {
    Monotonic since;
    std::uint64_t count = 0;  // after the entry at `since`
    LogEntry latest;
  };
  void flush(Monotonic now);
  void append(LogEntry entry);

  const Clock& clock_;
  std::deque<LogEntry> entries_;
  std::uint64_t last_ = 0;
  std::map<std::string, Repeats> repeats_;
  Monotonic flushed_{};
};

}  // namespace space::netd
