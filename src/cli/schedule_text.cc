#include "cli/schedule_text.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/fields.h"
#include "cli/progress.h"

namespace space::cli {

namespace {

constexpr std::int64_t minute = 60, hour = 3600, day = 24 * hour;
constexpr std::int64_t keep_by_default = 6;

struct Unit {
  std::string_view name;
  std::int64_t worth;
};
constexpr Unit time_units[] = {{"", 1}, {"s", 1}, {"m", minute}, {"h", hour}, {"d", day}};
constexpr Unit size_units[] = {{"", 1},
                               {"KiB", std::int64_t{1} << 10},
                               {"MiB", std::int64_t{1} << 20},
                               {"GiB", std::int64_t{1} << 30},
                               {"TiB", std::int64_t{1} << 40}};

template <std::size_t n>
Result<std::int64_t> parse_amount(std::string_view text, const Unit (&units)[n], std::string_view example) {
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem == std::errc() && count > 0) {
    const std::string_view name(end, text.data() + text.size());
    for (const Unit& unit : units)
      if (unit.name == name && count <= INT64_MAX / unit.worth) return count * unit.worth;
  }
  return fail(Code::invalid_argument, "'{}' must look like {}", text, example);
}

// "6x10m"
Result<JsonObject> parse_tier(std::string_view text) {
  const auto cross = text.find('x');
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + std::min(cross, text.size()), count);
  if (cross == text.npos || problem != std::errc() || end != text.data() + cross || count <= 0)
    return fail(Code::invalid_argument,
                "'{}' must look like 6x10m: how many to keep, and at which distance from each other", text);
  SPACE_TRY(const std::int64_t every, parse_seconds(text.substr(cross + 1)));
  return JsonObject{{"everySeconds", every}, {"count", count}};
}

Result<JsonObject> kind_of(std::string_view every_text, std::string_view keep_text) {
  SPACE_TRY(const std::int64_t every, parse_seconds(every_text));
  JsonArray keep;
  if (keep_text.empty()) keep.push_back(JsonObject{{"everySeconds", every}, {"count", keep_by_default}});
  for (bool more = !keep_text.empty(); more;) {
    const auto comma = keep_text.find(',');
    SPACE_TRY(JsonObject tier, parse_tier(keep_text.substr(0, comma)));
    keep.push_back(std::move(tier));
    more = comma != keep_text.npos;
    if (more) keep_text.remove_prefix(comma + 1);
  }
  return JsonObject{{"everySeconds", every}, {"keep", std::move(keep)}};
}

std::string kind_text(const JsonObject& kind) {
  std::string text = fmt::format("every {}", span_text(number_at(kind, "everySeconds")));
  std::string_view before = ", kept ";
  for (const JsonObject& tier : objects_in(kind, "keep")) {
    text += fmt::format("{}{} x {}", before, number_at(tier, "count"),
                        span_text(number_at(tier, "everySeconds")));
    before = ", ";
  }
  return text;
}

}  // namespace

Result<std::int64_t> parse_seconds(std::string_view text) {
  return parse_amount(text, time_units, "90s, 10m, 2h or 7d");
}

Result<std::int64_t> parse_size(std::string_view text) {
  return parse_amount(text, size_units, "500MiB or 10GiB");
}

Result<JsonObject> schedule_of(const ScheduleOptions& options) {
  if (options.disk_every.empty() && !options.disk_keep.empty())
    return fail(Code::invalid_argument, "--disk-keep needs --disk-every: how often is one taken?");
  if (options.full_every.empty() && !options.full_keep.empty())
    return fail(Code::invalid_argument, "--full-keep needs --full-every: how often is one taken?");
  JsonObject schedule;
  if (!options.disk_every.empty()) {
    SPACE_TRY(schedule["disk"], kind_of(options.disk_every, options.disk_keep));
  }
  if (!options.full_every.empty()) {
    SPACE_TRY(schedule["full"], kind_of(options.full_every, options.full_keep));
  }
  if (schedule.empty())
    return fail(Code::invalid_argument, "--quota needs --disk-every or --full-every: what is to be taken?");
  if (!options.quota.empty()) {
    SPACE_TRY(schedule["quotaBytes"], parse_size(options.quota));
  }
  return schedule;
}

std::string span_text(std::int64_t seconds) {
  if (seconds == day) return "1 day";
  if (seconds > 0 && seconds % day == 0) return fmt::format("{} days", seconds / day);
  if (seconds > 0 && seconds % hour == 0) return fmt::format("{} h", seconds / hour);
  if (seconds > 0 && seconds % minute == 0) return fmt::format("{} min", seconds / minute);
  return fmt::format("{} s", seconds);
}

std::vector<std::string> schedule_lines(const Json& schedule) {
  if (!schedule.is_object()) return {"no schedule: a snapshot is taken when somebody asks for one"};
  const JsonObject& object = schedule.get_object();
  std::vector<std::string> lines;
  if (const JsonObject* disk = object_at(object, "disk")) lines.push_back("disk   " + kind_text(*disk));
  if (const JsonObject* full = object_at(object, "full")) lines.push_back("full   " + kind_text(*full));
  if (number_at(object, "quotaBytes") > 0)
    lines.push_back(fmt::format("quota  {} of its snapshots' own", bytes_at(object, "quotaBytes")));
  return lines;
}

std::string_view policy_text(std::string_view policy) {
  if (policy == "disk") return "its disk boots as it is: no file is lost, every program is";
  if (policy == "checkpoint")
    return "its newest checkpoint goes on, programs and all; what came after it is kept as a disk snapshot";
  if (policy == "none") return "it is gone, and nothing of it stays";
  return "?";
}

std::string recovered_text(const JsonObject& recovered) {
  std::string point = "?";
  if (const JsonObject* from = object_at(recovered, "from")) {
    const std::string kind = text_at(*from, "kind");
    point = kind == "live_disk"
                ? "its live disk"
                : fmt::format("{} {} of {}", kind == "full" ? "checkpoint" : "disk snapshot",
                              number_at(*from, "number"), moment_text(time_at(*from, "createdAt")));
  }
  const std::int64_t count = number_at(recovered, "count");
  return fmt::format("{} from {} ({}); {} {} in all", moment_text(time_at(recovered, "at")), point,
                     text_at(recovered, "cause"), count, count == 1 ? "recovery" : "recoveries");
}

}  // namespace space::cli
