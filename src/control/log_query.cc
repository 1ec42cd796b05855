#include "control/log_query.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "control/query_number.h"
#include "net/http.h"

namespace space::control {
namespace {

constexpr std::int64_t time_ms_max = 8'640'000'000'000;  // in microseconds still exact in every JSON reader
constexpr std::int64_t wait_ms_max = 20'000;
constexpr std::size_t search_bytes_max = 256;

// A line's own timestamp, as observation_json.h prints it.
Result<std::int64_t> microseconds(std::string_view text) {
  constexpr std::size_t printed_size = sizeof "2026-01-31T12:00:00.123456Z" - 1;
  const auto time = parse_rfc3339(text);
  std::int64_t rest = 0;
  if (time && text.size() == printed_size &&
      std::from_chars(text.data() + printed_size - 4, text.data() + printed_size - 1, rest).ptr ==
          text.data() + printed_size - 1 &&
      time->time_since_epoch().count() >= 0 && time->time_since_epoch().count() <= time_ms_max)
    return time->time_since_epoch().count() * 1000 + rest;
  return fail(Code::invalid_argument, "'after' must be the timestamp of a line of this log");
}

Result<void> apply(std::string_view name, const std::string& value, LogRoute route, LogQuery& query) {
  constexpr std::array<std::string_view, 4> levels = {"debug", "info", "warn", "error"};
  if (name == "limit") {
    SPACE_TRY(query.limit, query_number(name, value, 1, log_lines_max));
  } else if (name == (route == LogRoute::v1 ? "start" : "cursor")) {
    SPACE_TRY(query.from_ms, query_number(name, value, 0, time_ms_max));
  } else if (route == LogRoute::v1) {
    return {};
  } else if (name == "direction") {
    if (value != "forward" && value != "backward")
      return fail(Code::invalid_argument, "'direction' must be forward or backward");
    query.backward = value == "backward";
  } else if (name == "level") {
    if (std::ranges::find(levels, value) == levels.end())
      return fail(Code::invalid_argument, "'level' must be debug, info, warn or error");
    query.level = value;
  } else if (name == "search") {
    if (value.size() > search_bytes_max)
      return fail(Code::invalid_argument, "'search' is longer than {} bytes", search_bytes_max);
    query.search = value;
  } else if (name == "after") {
    SPACE_TRY(query.after_us, microseconds(value));
  } else if (name == "wait_ms") {
    SPACE_TRY(query.wait_ms, query_number(name, value, 0, wait_ms_max));
  }
  return {};
}

}  // namespace

Result<LogQuery> parse_log_query(std::string_view text, LogRoute route) {
  LogQuery query;
  for (const auto& [name, value] : http::parse_query(text)) SPACE_CHECK(apply(name, value, route, query));
  return query;
}

JsonObject node_log_request(const LogQuery& query, std::string_view sandbox) {
  JsonObject request{{"id", sandbox}, {"limit", query.limit}, {"backward", query.backward}};
  // The node counts in microseconds and leaves the bounds themselves out.
  if (query.from_ms && query.backward) request["before"] = (*query.from_ms + 1) * 1000;
  if (query.from_ms && !query.backward)
    request["after"] = std::max<std::int64_t>(0, *query.from_ms * 1000 - 1);
  if (query.after_us && !query.backward) request["after"] = *query.after_us;
  if (!query.level.empty()) request["level"] = query.level;
  if (!query.search.empty()) request["search"] = query.search;
  if (query.wait_ms > 0) request["wait_ms"] = query.wait_ms;
  return request;
}

}  // namespace space::control
