#include "core/recovery.h"

namespace space {
namespace {

constexpr std::array<std::string_view, 3> policy_names = {"disk", "checkpoint", "none"};
constexpr std::array<std::string_view, 3> from_names = {"live_disk", "disk", "full"};

std::int64_t millis_of(Wall time) {
  return time.time_since_epoch().count();
}

}  // namespace

std::string_view to_string(RecoveryPolicy policy) {
  return policy_names[static_cast<std::size_t>(policy)];
}
std::optional<RecoveryPolicy> recovery_policy_from(std::string_view name) {
  for (std::size_t i = 0; i < policy_names.size(); ++i)
    if (policy_names[i] == name) return static_cast<RecoveryPolicy>(i);
  return std::nullopt;
}

std::string_view to_string(RecoveredFrom from) {
  return from_names[static_cast<std::size_t>(from)];
}
std::optional<RecoveredFrom> recovered_from_name(std::string_view name) {
  for (std::size_t i = 0; i < from_names.size(); ++i)
    if (from_names[i] == name) return static_cast<RecoveredFrom>(i);
  return std::nullopt;
}

std::vector<RecoveryPoint> recovery_points(RecoveryPolicy policy, const std::vector<LineagePoint>& lineage,
                                           bool has_live_disk) {
  std::vector<RecoveryPoint> points;
  if (policy == RecoveryPolicy::none) return points;
  const RecoveryPoint live{RecoveredFrom::live_disk, 0};
  if (policy == RecoveryPolicy::disk && has_live_disk) return {live};
  if (policy == RecoveryPolicy::checkpoint)
    for (const LineagePoint& point : lineage)
      if (point.full) points.push_back({RecoveredFrom::full, point.number});
  if (has_live_disk) {
    points.push_back(live);
    return points;
  }
  for (const LineagePoint& point : lineage)
    if (policy == RecoveryPolicy::disk || !point.full) points.push_back({RecoveredFrom::disk, point.number});
  return points;
}

bool recovery_allowed(const std::optional<RecoveryNote>& last, Wall now) {
  if (!last) return true;
  std::size_t within = 0;
  for (const Wall& at : last->recent)
    if (at > now - recovery_limits::window) ++within;
  return within < recovery_limits::most;
}

RecoveryNote next_recovery(const std::optional<RecoveryNote>& last, Wall now, RecoveryPoint point,
                           std::optional<Wall> point_created_at, std::string cause) {
  RecoveryNote note{.at = now,
                    .point = point,
                    .point_created_at = point_created_at,
                    .cause = std::move(cause),
                    .count = 1,
                    .recent = {}};
  if (last) {
    note.count = last->count + 1;
    for (const Wall& at : last->recent)
      if (at > now - recovery_limits::window) note.recent.push_back(at);
    // More than the limit tells nothing; asked for by hand there may be any number.
    while (note.recent.size() >= recovery_limits::most) note.recent.erase(note.recent.begin());
  }
  note.recent.push_back(now);
  return note;
}

JsonObject to_json(const RecoveryNote& note) {
  JsonObject object{{"at", millis_of(note.at)},
                    {"from", to_string(note.point.from)},
                    {"number", note.point.number},
                    {"cause", note.cause},
                    {"count", note.count}};
  if (note.point_created_at) object["point_created_at"] = millis_of(*note.point_created_at);
  JsonArray recent;
  for (const Wall& at : note.recent) recent.push_back(millis_of(at));
  object["recent"] = std::move(recent);
  return object;
}

Result<RecoveryNote> recovery_note_from_json(const JsonObject& object) {
  RecoveryNote note;
  SPACE_TRY(const std::int64_t at, require_int(object, "at", 0, INT64_MAX));
  note.at = Wall(Millis(at));
  SPACE_TRY(const std::string from, require_text(object, "from"));
  const auto known = recovered_from_name(from);
  if (!known) return fail(Code::invalid_argument, "\"{}\" is no recovery point", from);
  SPACE_TRY(const std::int64_t number, require_int(object, "number", 0, INT64_MAX));
  note.point = {*known, static_cast<std::uint64_t>(number)};
  SPACE_TRY(note.cause, require_text(object, "cause"));
  SPACE_TRY(note.count, require_int(object, "count", 0, INT64_MAX));
  SPACE_TRY(const auto created, int_member(object, "point_created_at", 0, INT64_MAX));
  if (created) note.point_created_at = Wall(Millis(*created));
  SPACE_TRY(const JsonArray* recent, array_member(object, "recent"));
  if (recent == nullptr || recent->size() > recovery_limits::most) return note;
  for (const Json& value : *recent)
    if (const auto* moment = value.if_int64()) note.recent.push_back(Wall(Millis(*moment)));
  return note;
}

}  // namespace space
