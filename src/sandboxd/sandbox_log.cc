#include "sandboxd/sandbox_log.h"

#include <algorithm>

namespace space {
namespace {

constexpr std::array<std::string_view, 4> level_names = {"debug", "info", "warn", "error"};

bool matches(const LogQuery& query, const LogEntry& entry) {
  return entry.level >= query.level && (query.search.empty() || entry.message.contains(query.search));
}

}  // namespace

std::string_view to_string(LogLevel level) {
  return level_names[std::to_underlying(level)];
}

std::optional<LogLevel> log_level_from(std::string_view name) {
  const auto found = std::ranges::find(level_names, name);
  if (found == level_names.end()) return std::nullopt;
  return static_cast<LogLevel>(found - level_names.begin());
}

std::size_t LogEntry::bytes() const {
  std::size_t sum = sizeof(LogEntry) + message.size();
  for (const auto& [name, value] : fields) sum += name.size() + value.size() + sizeof(fields.front());
  return sum;
}

void SandboxLog::append(LogSource source, LogLevel level, std::string message,
                        std::vector<std::pair<std::string, std::string>> fields) {
  const auto now_us =
      std::chrono::duration_cast<std::chrono::microseconds>(clock_.wall().time_since_epoch()).count();
  last_ = std::max(last_ + 1, static_cast<std::uint64_t>(now_us));
  Ring& ring = rings_[std::to_underlying(source)];
  ring.entries.push_back({last_, level, std::move(message), std::move(fields)});
  ring.bytes += ring.entries.back().bytes();
  while (ring.entries.size() > lines_max[std::to_underlying(source)] ||
         ring.bytes > bytes_max[std::to_underlying(source)]) {
    ring.bytes -= ring.entries.front().bytes();
    ring.entries.pop_front();
  }
  appended_.notify_all();
}

std::vector<const LogEntry*> SandboxLog::ordered() const {
  std::vector<const LogEntry*> all;
  for (const Ring& ring : rings_)
    for (const LogEntry& entry : ring.entries) all.push_back(&entry);
  std::ranges::sort(all, {}, &LogEntry::sequence);
  return all;
}

LogPage SandboxLog::select(const LogQuery& query) const {
  std::vector<const LogEntry*> all = ordered();
  if (query.backward) std::ranges::reverse(all);
  LogPage page;
  page.next = query.backward ? query.before : query.after;
  std::size_t bytes = 0;
  for (const LogEntry* entry : all) {
    if (entry->sequence <= query.after || entry->sequence >= query.before) continue;
    if (matches(query, *entry)) {
      bytes += entry->bytes();
      if (page.entries.size() == query.limit || (bytes > page_bytes_max && !page.entries.empty())) break;
      page.entries.push_back(*entry);
    }
    page.next = entry->sequence;
  }
  return page;
}

Task<void> SandboxLog::wait(Deadline deadline) {
  co_await appended_.wait(deadline);
}

}  // namespace space
