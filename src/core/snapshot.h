// Snapshot: what a node knows of one snapshot. Pure data; the journal keeps it, core/lineage.h,
// core/retention.h and whoever takes, restores or removes one decide with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/clock.h"
#include "core/shape.h"

namespace space {

// By the sandbox it was taken of and its number there. Numbers of a sandbox only grow.
struct SnapshotId {
  std::string sandbox;
  std::uint64_t number = 0;
  bool operator==(const SnapshotId&) const = default;
  bool operator<(const SnapshotId& other) const {
    return std::tie(sandbox, number) < std::tie(other.sandbox, other.number);
  }
};

enum class SnapshotKind : unsigned char {
  full,  // memory, devices and disk of one instant: it goes on
  disk,  // the disk alone: it boots
};

// Why it was taken. Of one that serves two ends, the one that keeps it longer.
enum class SnapshotCause : unsigned char {
  asked,            // by a client
  schedule,         // by the sandbox's schedule
  pause,            // holds the memory of a cold pause; goes when a newer one does
  fork,             // others begin from it
  before_rollback,  // what a rollback left behind
  before_recovery,  // the live disk that a recovery did not go on from
  published,        // as something to create from
};

namespace snapshot_names {
inline constexpr std::array<std::string_view, 2> kinds = {"full", "disk"};
inline constexpr std::array<std::string_view, 7> causes = {
    "asked", "schedule", "pause", "fork", "before_rollback", "before_recovery", "published"};
}  // namespace snapshot_names

constexpr std::string_view to_string(SnapshotKind kind) {
  return snapshot_names::kinds[static_cast<std::size_t>(kind)];
}
constexpr std::optional<SnapshotKind> snapshot_kind_from(std::string_view name) {
  for (std::size_t i = 0; i < snapshot_names::kinds.size(); ++i)
    if (snapshot_names::kinds[i] == name) return static_cast<SnapshotKind>(i);
  return std::nullopt;
}
constexpr std::string_view to_string(SnapshotCause cause) {
  return snapshot_names::causes[static_cast<std::size_t>(cause)];
}
constexpr std::optional<SnapshotCause> snapshot_cause_from(std::string_view name) {
  for (std::size_t i = 0; i < snapshot_names::causes.size(); ++i)
    if (snapshot_names::causes[i] == name) return static_cast<SnapshotCause>(i);
  return std::nullopt;
}

// Complete on the pool. It may outlive its sandbox, so it says itself what is needed to begin from it.
struct SnapshotRecord {
  std::string sandbox;
  std::uint64_t number = 0;
  SnapshotKind kind = SnapshotKind::full;
  SnapshotCause cause = SnapshotCause::asked;
  std::optional<std::uint64_t>
      parent;  // the state it followed, of the same sandbox; removed ones are skipped
  Wall created_at{};
  bool quiesced = false;  // its guest flushed and stood still for it: nothing was cut in the middle
  std::string name;       // given by a client; empty: none
  bool pinned = false;
  bool published = false;
  std::string team;
  std::string template_digest;
  Shape shape;
  std::int64_t memory_bytes = 0, dirty_bytes = 0, written_bytes = 0, stop_window_us = 0;

  SnapshotId id() const { return {sandbox, number}; }
};

// What a new one is to be.
struct SnapshotWish {
  SnapshotKind kind = SnapshotKind::full;
  SnapshotCause cause = SnapshotCause::asked;
  std::string name;
  bool pinned = false;
};

// What may change of one that is there; nothing: as it is.
struct SnapshotEdit {
  std::optional<std::string> name;  // empty: none
  std::optional<bool> pinned, published;
};

}  // namespace space
