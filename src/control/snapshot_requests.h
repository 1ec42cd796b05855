// The bodies and queries of the routes of snapshots, rollback, schedule and recovery, parsed and checked.
// Pure; fuzzed.
//
// Errors are invalid_argument and say what would be right. These routes are ours alone: a member or parameter
// that is not known is refused, for it would silently not happen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "core/recovery.h"
#include "core/schedule.h"
#include "core/snapshot.h"

namespace space::control {

inline constexpr std::int64_t diff_limit_max = 10'000;
inline constexpr std::size_t snapshot_name_max = 64;

// Without a body: a full one without a name.
struct SnapshotRequest {
  SnapshotKind kind = SnapshotKind::full;
  std::string name;  // "" = none
  bool pinned = false;
};
Result<SnapshotRequest> parse_snapshot_request(std::string_view body);

// At least one of the two.
struct SnapshotChange {
  std::optional<std::string> name;  // "": it loses its name
  std::optional<bool> pinned;
};
Result<SnapshotChange> parse_snapshot_change(std::string_view body);

// The {number} of a path. not_found: there can be no such snapshot.
Result<std::int64_t> parse_snapshot_number(std::string_view text);

// To a snapshot, or without a number back to before the last rollback.
struct RollbackRequest {
  std::optional<std::int64_t> number;
  bool operator==(const RollbackRequest&) const = default;
};
Result<RollbackRequest> parse_rollback_request(std::string_view body);

// {"schedule":X}, X as below.
Result<std::optional<SnapshotSchedule>> parse_schedule_request(std::string_view body);
// An object, "default", "off" or null. Says why one cannot be met.
Result<std::optional<SnapshotSchedule>> read_schedule(const Json& value);
// As clients read and write it: {"disk":{"everySeconds","keep":[{"everySeconds","count"}]},"full":…,
// "quotaBytes"}; null without one.
Json schedule_json(const std::optional<SnapshotSchedule>& schedule);

// {"policy":"disk"|"checkpoint"|"none"}
Result<RecoveryPolicy> parse_recovery_request(std::string_view body);
Result<RecoveryPolicy> read_recovery_policy(std::string_view word);

struct DiffQuery {
  std::int64_t from = 0, to = 0;
  std::int64_t limit = 1'000;  // of changes
};
Result<DiffQuery> parse_diff_query(std::string_view query);

// measure=true: with the bytes that each holds alone.
Result<bool> parse_snapshots_query(std::string_view query);

}  // namespace space::control
