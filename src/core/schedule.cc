#include "core/schedule.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace space {
namespace {

using namespace schedule_limits;

Result<void> only_members(const JsonObject& object, std::string_view what,
                          std::initializer_list<std::string_view> known) {
  for (const auto& member : object)
    if (std::ranges::find(known, std::string_view(member.key())) == known.end())
      return fail(Code::invalid_argument, "{} has no member \"{}\"", what, std::string_view(member.key()));
  return {};
}

Result<KeepTier> tier_from(const Json& value, std::string_view kind, std::int64_t cadence_s) {
  const JsonObject* object = value.if_object();
  if (object == nullptr)
    return fail(Code::invalid_argument, "a tier of the {} schedule is {{\"every_s\",\"count\"}}", kind);
  SPACE_CHECK(only_members(*object, "a tier of a schedule", {"every_s", "count"}));
  KeepTier tier;
  SPACE_TRY(tier.every_s, require_int(*object, "every_s", 1, every_s_max));
  SPACE_TRY(tier.count, require_int(*object, "count", 1, count_max));
  if (tier.every_s < cadence_s)
    return fail(Code::invalid_argument,
                "{} snapshots cannot be kept every {} s: they are taken every {} s only", kind, tier.every_s,
                cadence_s);
  if (tier.every_s % cadence_s != 0)
    return fail(Code::invalid_argument,
                "{} snapshots cannot be kept every {} s: that is no multiple of the {} s at which they are "
                "taken",
                kind, tier.every_s, cadence_s);
  return tier;
}

Result<std::optional<KindSchedule>> kind_from(const JsonObject& schedule, std::string_view kind) {
  SPACE_TRY(const JsonObject* object, object_member(schedule, kind));
  if (object == nullptr) return std::nullopt;
  SPACE_CHECK(only_members(*object, "a kind's schedule", {"every_s", "keep"}));
  KindSchedule parsed;
  SPACE_TRY(parsed.every_s, require_int(*object, "every_s", every_s_min, every_s_max));
  SPACE_TRY(const JsonArray* keep, array_member(*object, "keep"));
  if (keep == nullptr || keep->empty())
    return fail(Code::invalid_argument, "\"keep\" of the {} schedule says nothing that would be kept", kind);
  if (keep->size() > static_cast<std::size_t>(tiers_max))
    return fail(Code::invalid_argument, "the {} schedule has more than {} tiers", kind, tiers_max);
  for (const Json& value : *keep) {
    SPACE_TRY(const KeepTier tier, tier_from(value, kind, parsed.every_s));
    parsed.keep.push_back(tier);
  }
  std::ranges::sort(parsed.keep, {}, &KeepTier::every_s);
  if (std::ranges::adjacent_find(parsed.keep, {}, &KeepTier::every_s) != parsed.keep.end())
    return fail(Code::invalid_argument, "the {} schedule has two tiers of the same \"every_s\"", kind);
  return parsed;
}

std::int64_t kept_at_most(const std::optional<KindSchedule>& kind) {
  std::int64_t sum = 0;
  if (kind)
    for (const KeepTier& tier : kind->keep) sum += tier.count;
  return sum;
}

JsonObject to_json(const KindSchedule& kind) {
  JsonArray keep;
  for (const KeepTier& tier : kind.keep)
    keep.push_back(JsonObject{{"every_s", tier.every_s}, {"count", tier.count}});
  return {{"every_s", kind.every_s}, {"keep", std::move(keep)}};
}

}  // namespace

SnapshotSchedule default_schedule() {
  constexpr std::int64_t minute = 60, hour = 3600, day = 24 * hour;
  return {.disk = KindSchedule{10 * minute, {{10 * minute, 6}, {hour, 24}, {day, 7}}},
          .full = KindSchedule{hour, {{hour, 3}}},
          .quota_bytes = std::nullopt};
}

Result<SnapshotSchedule> schedule_from_json(const Json& value) {
  if (const auto* word = value.if_string(); word != nullptr && *word == "default") return default_schedule();
  const JsonObject* object = value.if_object();
  if (object == nullptr)
    return fail(Code::invalid_argument,
                "a schedule is \"default\", \"off\" or {{\"disk\",\"full\",\"quota_bytes\"}}");
  SPACE_CHECK(only_members(*object, "a schedule", {"disk", "full", "quota_bytes"}));
  SnapshotSchedule schedule;
  SPACE_TRY(schedule.disk, kind_from(*object, "disk"));
  SPACE_TRY(schedule.full, kind_from(*object, "full"));
  SPACE_TRY(schedule.quota_bytes, int_member(*object, "quota_bytes", quota_bytes_min, INT64_MAX));
  if (!schedule.disk && !schedule.full)
    return fail(Code::invalid_argument, "the schedule takes nothing: give it \"disk\", \"full\" or both");
  const std::int64_t all = kept_at_most(schedule.disk) + kept_at_most(schedule.full);
  if (all > snapshots_max)
    return fail(Code::invalid_argument, "the schedule keeps up to {} snapshots; a sandbox may have {}", all,
                snapshots_max);
  return schedule;
}

Result<std::optional<SnapshotSchedule>> schedule_or_off(const Json& value) {
  const auto* word = value.if_string();
  if (value.is_null() || (word != nullptr && *word == "off")) return std::nullopt;
  return schedule_from_json(value);
}

JsonObject to_json(const SnapshotSchedule& schedule) {
  JsonObject object;
  if (schedule.disk) object["disk"] = to_json(*schedule.disk);
  if (schedule.full) object["full"] = to_json(*schedule.full);
  if (schedule.quota_bytes) object["quota_bytes"] = *schedule.quota_bytes;
  return object;
}

}  // namespace space
