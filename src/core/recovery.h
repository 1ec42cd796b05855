// Recovery: what a sandbox goes on from when its VMM died. Pure.
//
// Only points of its own lineage are ever chosen, in the order of its policy; which one it was is said, never
// passed over in silence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace space {

enum class RecoveryPolicy : std::uint8_t {
  disk,        // its live disk boots: no file is lost, every process is
  checkpoint,  // its newest checkpoint goes on: what came after it is lost, kept aside as a disk snapshot
  none,        // it ends, and nothing of it stays
};
std::string_view to_string(RecoveryPolicy policy);
std::optional<RecoveryPolicy> recovery_policy_from(std::string_view name);

enum class RecoveredFrom : std::uint8_t {
  live_disk,  // booted
  disk,       // a disk snapshot, booted
  full,       // a checkpoint, restored
};
std::string_view to_string(RecoveredFrom from);
std::optional<RecoveredFrom> recovered_from_name(std::string_view name);

struct RecoveryPoint {
  RecoveredFrom from = RecoveredFrom::live_disk;
  std::uint64_t number = 0;  // of the snapshot; 0 for the live disk
  bool operator==(const RecoveryPoint&) const = default;
};

// A snapshot of the current lineage.
struct LineagePoint {
  std::uint64_t number = 0;
  bool full = false;
};

// What to try, in order; empty: nothing brings it back. `lineage`: newest first. The live disk comes before
// disk snapshots, which only serve where it is gone.
std::vector<RecoveryPoint> recovery_points(RecoveryPolicy policy, const std::vector<LineagePoint>& lineage,
                                           bool has_live_disk);

namespace recovery_limits {
// A sandbox that dies more often than this stays down until somebody asks: it would die again.
inline constexpr std::size_t most = 3;
inline constexpr Millis window{600'000};
}  // namespace recovery_limits

// The last recovery, and how often there was one.
struct RecoveryNote {
  Wall at{};
  RecoveryPoint point;
  std::optional<Wall> point_created_at;  // of the snapshot
  std::string cause;                     // of the death
  std::int64_t count = 0;                // of all its recoveries
  std::vector<Wall> recent;              // those within the window, oldest first, this one included
  bool operator==(const RecoveryNote&) const = default;
};

// May it be recovered at `now` once more without anybody asking? Moments in the future count: a clock that
// was set back allows no more.
bool recovery_allowed(const std::optional<RecoveryNote>& last, Wall now);
// The note of one more.
RecoveryNote next_recovery(const std::optional<RecoveryNote>& last, Wall now, RecoveryPoint point,
                           std::optional<Wall> point_created_at, std::string cause);

// As the journal keeps it.
JsonObject to_json(const RecoveryNote& note);
Result<RecoveryNote> recovery_note_from_json(const JsonObject& object);

}  // namespace space
