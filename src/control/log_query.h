// The queries of the two log routes. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace space::control {

inline constexpr std::int64_t log_lines_max = 1000;

enum class LogRoute : unsigned char {
  v1,  // start, limit
  v2,  // cursor, limit, direction, level, search; ours: after, wait_ms
};

struct LogQuery {
  std::optional<std::int64_t>
      from_ms;  // milliseconds since 1970, inclusive; backward: the newest there may be
  std::optional<std::int64_t> after_us;  // forward: what follows the line of exactly that time
  std::int64_t limit = log_lines_max;
  bool backward = false;
  std::string level;  // "": any
  std::string search;
  std::int64_t wait_ms = 0;  // for a first line, if there is none
};

// invalid_argument names the parameter.
Result<LogQuery> parse_log_query(std::string_view query, LogRoute route);

// As `sandbox/logs` of api/node-rpc.md wants it.
JsonObject node_log_request(const LogQuery& query, std::string_view sandbox);

}  // namespace space::control
