#include "netd/egress_log.h"

#include <algorithm>

namespace space::netd {
namespace {

using namespace std::chrono_literals;

constexpr Millis repeat_window = 10s;
constexpr Millis flush_pause = 1s;  // a guest that asks for ever other things does not make it a habit
constexpr std::size_t host_bytes_max = 253;
constexpr std::size_t path_bytes_max = 256;

constexpr std::string_view word(LogKind kind) {
  switch (kind) {
    case LogKind::dns:
      return "dns";
    case LogKind::tcp:
      return "tcp";
    case LogKind::tls:
      return "tls";
    case LogKind::http:
      return "http";
    case LogKind::policy:
      return "policy";
  }
  return "tcp";
}

std::string key_of(const LogEntry& entry) {
  return fmt::format("{} {} {} {} {}", word(entry.kind), to_string(entry.reason), entry.port, entry.address,
                     entry.host);
}

// For a guest that asks for too many different things to tell them apart.
std::string coarse_key_of(const LogEntry& entry) {
  return fmt::format("{} {}", word(entry.kind), to_string(entry.reason));
}

}  // namespace

JsonObject to_json(const LogEntry& entry) {
  JsonObject json{{"sequence", entry.sequence}, {"at", to_rfc3339(entry.at)},
                  {"kind", word(entry.kind)},   {"host", entry.host},
                  {"address", entry.address},   {"port", entry.port},
                  {"allowed", entry.allowed},   {"reason", to_string(entry.reason)},
                  {"rule", entry.rule},         {"generation", entry.generation}};
  if (!entry.method.empty()) json["method"] = entry.method;
  if (!entry.path.empty()) json["path"] = entry.path;
  if (entry.bytes_in) json["bytes_in"] = *entry.bytes_in;
  if (entry.bytes_out) json["bytes_out"] = *entry.bytes_out;
  if (entry.count > 1) json["count"] = entry.count;
  return json;
}

void EgressLog::append(LogEntry entry) {
  entry.sequence = ++last_;
  entries_.push_back(std::move(entry));
  if (entries_.size() > entries_max) entries_.pop_front();
}

void EgressLog::add(LogEntry entry) {
  entry.at = clock_.wall();
  entry.host.resize(std::min(entry.host.size(), host_bytes_max));
  entry.path.resize(std::min(entry.path.size(), path_bytes_max));
  append(std::move(entry));
}

bool EgressLog::add_counted(LogEntry entry) {
  const Monotonic now = clock_.monotonic();
  entry.host.resize(std::min(entry.host.size(), host_bytes_max));
  std::string key = key_of(entry);
  if (repeats_.size() >= kinds_of_refusal_max && now - flushed_ >= flush_pause) flush(now);
  if (repeats_.size() >= kinds_of_refusal_max && !repeats_.contains(key)) key = coarse_key_of(entry);
  const auto [found, first] = repeats_.try_emplace(std::move(key));
  Repeats& repeats = found->second;
  if (!first && now - repeats.since < repeat_window) {
    ++repeats.count;
    entry.at = clock_.wall();
    repeats.latest = std::move(entry);
    return false;
  }
  entry.count = repeats.count + 1;
  repeats = {.since = now, .count = 0, .latest = {}};
  add(std::move(entry));
  return true;
}

// What was counted in windows that are over; these start anew with the next of their kind.
void EgressLog::flush(Monotonic now) {
  flushed_ = now;
  for (auto at = repeats_.begin(); at != repeats_.end();) {
    Repeats& repeats = at->second;
    if (now - repeats.since < repeat_window) {
      ++at;
      continue;
    }
    if (repeats.count > 0) {
      repeats.latest.count = repeats.count;
      append(std::move(repeats.latest));
    }
    at = repeats_.erase(at);
  }
}

EgressLog::Page EgressLog::read(std::uint64_t after, std::size_t limit) {
  flush(clock_.monotonic());
  const std::uint64_t oldest = last_ - entries_.size() + 1;
  Page page{.entries = {}, .next = after, .gap = after + 1 < oldest || after > last_};
  // A number of before a restart: from the beginning.
  const std::uint64_t from = after > last_ ? oldest : std::max(after + 1, oldest);
  for (std::uint64_t sequence = from; sequence <= last_ && page.entries.size() < limit; ++sequence)
    page.entries.push_back(entries_[sequence - oldest]);
  if (!page.entries.empty()) {
    page.next = page.entries.back().sequence;
  } else if (after > last_) {
    page.next = last_;
  }
  return page;
}

}  // namespace space::netd
