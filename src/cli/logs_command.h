// space logs: a sandbox's log as lines, once or as it grows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "cli/options.h"

namespace space::cli {

int command_logs(const CommonOptions& common, const LogsOptions& options);

// Pure. "2026-01-31T12:00:00.123Z  warn   sandbox stands still  reason=…"; a console line has a bar in front.
std::string log_line(const JsonObject& entry);
// Milliseconds since 1970 of "90s", "10m", "2h", "3d" before `now`, or of an RFC 3339 time.
Result<std::int64_t> since_ms(std::string_view since, Wall now);

}  // namespace space::cli
