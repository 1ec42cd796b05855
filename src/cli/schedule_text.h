// Schedules of snapshots in the words of people: what they type, what they read. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/options.h"

namespace space::cli {

// "90s", "10m", "2h", "7d" or plain seconds.
Result<std::int64_t> parse_seconds(std::string_view text);
// "10GiB", "500MiB", "1TiB" or plain bytes.
Result<std::int64_t> parse_size(std::string_view text);
// The schedule that flags describe, as the API takes it. Without --*-keep: the last six.
Result<JsonObject> schedule_of(const ScheduleOptions& options);

// "10 min", "1 h", "90 s", "1 day", "7 days".
std::string span_text(std::int64_t seconds);
// `schedule` as the API sends it, null for none.
std::vector<std::string> schedule_lines(const Json& schedule);

// What a policy does when a virtual machine ends that should not have.
std::string_view policy_text(std::string_view policy);
// "2026-11-30 13:37:01Z from its live disk (the guest powered off); 2 recoveries in all"
std::string recovered_text(const JsonObject& recovered);

}  // namespace space::cli
