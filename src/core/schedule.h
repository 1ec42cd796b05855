// SnapshotSchedule: how often a sandbox is kept by itself, and which of those are kept how long. Pure.
//
// A kind is taken every `every_s` and kept in tiers: `count` spans of a tier's `every_s` keep one each, the
// newest of the span. Which go is core/retention.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"

namespace space {

struct KeepTier {
  std::int64_t every_s = 0;
  std::int64_t count = 0;
  bool operator==(const KeepTier&) const = default;
};

struct KindSchedule {
  std::int64_t every_s = 0;
  std::vector<KeepTier> keep;  // finest first
  bool operator==(const KindSchedule&) const = default;
};

struct SnapshotSchedule {
  std::optional<KindSchedule> disk, full;  // at least one
  // Of the pool, that its snapshots alone may hold; nullopt: no limit.
  std::optional<std::int64_t> quota_bytes;
  bool operator==(const SnapshotSchedule&) const = default;
};

namespace schedule_limits {
inline constexpr std::int64_t every_s_min = 60;
inline constexpr std::int64_t every_s_max = std::int64_t{366} * 24 * 3600;
inline constexpr std::int64_t tiers_max = 8;  // of a kind
inline constexpr std::int64_t count_max = 1'000;
inline constexpr std::int64_t snapshots_max = 500;  // of all tiers of both kinds
inline constexpr std::int64_t quota_bytes_min = std::int64_t{1} << 20;
}  // namespace schedule_limits

// Disk every 10 min, kept 6 x 10 min, 24 x 1 h, 7 x 1 d; full every hour, kept 3.
SnapshotSchedule default_schedule();

// An object of the form that to_json gives, or "default". invalid_argument says why it cannot be met.
Result<SnapshotSchedule> schedule_from_json(const Json& value);
// The same, or null or "off": none.
Result<std::optional<SnapshotSchedule>> schedule_or_off(const Json& value);
// {"disk":{"every_s":600,"keep":[{"every_s":600,"count":6}]},"full":{...},"quota_bytes":n}; what is not set
// is left out.
JsonObject to_json(const SnapshotSchedule& schedule);

}  // namespace space
