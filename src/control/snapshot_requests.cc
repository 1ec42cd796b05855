#include "control/snapshot_requests.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "net/http.h"

namespace space::control {
namespace {

// Members of a schedule: as clients write them, and as the node and the database do.
constexpr std::array schedule_words = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"everySeconds", "every_s"}, {"quotaBytes", "quota_bytes"}});

Result<void> only(const JsonObject& object, std::initializer_list<std::string_view> known) {
  for (const auto& member : object)
    if (std::ranges::find(known, std::string_view(member.key())) == known.end())
      return fail(Code::invalid_argument, "There is no member '{}' here", std::string_view(member.key()));
  return {};
}

Result<JsonObject> parse_body(std::string_view text, std::initializer_list<std::string_view> known) {
  SPACE_TRY(JsonObject body, parse_json_object(text, "the request body"));
  SPACE_CHECK(only(body, known));
  return body;
}

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Result<std::string> checked_name(std::string name) {
  const auto fits = [](char c) { return is_word_character(c) || c == '.' || c == '_' || c == '-'; };
  if (name.empty() || name.size() > snapshot_name_max || !std::ranges::all_of(name, fits) ||
      !is_word_character(name.front()))
    return fail(Code::invalid_argument,
                "'name' must be 1 to {} letters, digits and . _ -, and begin with a letter or digit",
                snapshot_name_max);
  return name;
}

std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    return std::nullopt;
  return value;
}

using Rename = std::string_view (*)(std::string_view key);

std::string_view word_of_node(std::string_view key) {
  for (const auto& [ours, theirs] : schedule_words)
    if (key == ours) return theirs;
  return key;
}
std::string_view word_of_clients(std::string_view key) {
  for (const auto& [ours, theirs] : schedule_words)
    if (key == theirs) return ours;
  return key;
}

Json renamed(const Json& value, Rename rename) {
  if (const auto* array = value.if_array()) {
    JsonArray result;
    for (const Json& each : *array) result.push_back(renamed(each, rename));
    return result;
  }
  const auto* object = value.if_object();
  if (object == nullptr) return value;
  JsonObject result;
  for (const auto& member : *object) result[rename(member.key())] = renamed(member.value(), rename);
  return result;
}

std::string in_words_of_clients(std::string message) {
  for (const auto& [ours, theirs] : schedule_words)
    for (auto at = message.find(theirs); at != std::string::npos; at = message.find(theirs, at + ours.size()))
      message.replace(at, theirs.size(), ours);
  return message;
}

}  // namespace

Result<SnapshotRequest> parse_snapshot_request(std::string_view text) {
  SnapshotRequest request;
  if (text.empty()) return request;
  SPACE_TRY(const JsonObject body, parse_body(text, {"kind", "name", "pinned"}));
  SPACE_TRY(const auto kind, text_member(body, "kind"));
  if (kind) {
    const auto known = snapshot_kind_from(*kind);
    if (!known) return fail(Code::invalid_argument, "'kind' must be full or disk");
    request.kind = *known;
  }
  SPACE_TRY(auto name, text_member(body, "name"));
  if (name) {
    SPACE_TRY(request.name, checked_name(*std::move(name)));
  }
  SPACE_TRY(const auto pinned, bool_member(body, "pinned"));
  request.pinned = pinned.value_or(false);
  return request;
}

Result<SnapshotChange> parse_snapshot_change(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_body(text, {"name", "pinned"}));
  SnapshotChange change;
  SPACE_TRY(auto name, text_member(body, "name"));
  if (name) {
    SPACE_TRY(change.name, checked_name(*std::move(name)));
  } else if (body.contains("name")) {
    change.name = "";
  }
  SPACE_TRY(change.pinned, bool_member(body, "pinned"));
  if (!change.name && !change.pinned)
    return fail(Code::invalid_argument, "Nothing to change: give 'name' (text or null), 'pinned' or both");
  return change;
}

Result<std::int64_t> parse_snapshot_number(std::string_view text) {
  if (const auto number = parse_number(text, 1, INT64_MAX)) return *number;
  return fail(Code::not_found, "There is no such snapshot. Snapshots have numbers from 1");
}

Result<RollbackRequest> parse_rollback_request(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_body(text, {"snapshot", "undo"}));
  RollbackRequest request;
  SPACE_TRY(request.number, int_member(body, "snapshot", 1, INT64_MAX));
  SPACE_TRY(const auto undo, bool_member(body, "undo"));
  if (request.number.has_value() == undo.value_or(false))
    return fail(
        Code::invalid_argument,
        "Give either 'snapshot' with the number of one, or 'undo': true to take back the last rollback");
  return request;
}

Result<std::optional<SnapshotSchedule>> read_schedule(const Json& value) {
  const auto* word = value.if_string();
  if (value.is_null() || (word != nullptr && *word == "off")) return std::nullopt;
  if (!value.is_object() && (word == nullptr || *word != "default"))
    return fail(Code::invalid_argument,
                "'schedule' must be \"default\", \"off\" or an object with 'disk', 'full' and 'quotaBytes'");
  // One that is written in the node's own words would be taken for ours.
  if (to_text(renamed(value, word_of_clients)) != to_text(value))
    return fail(Code::invalid_argument,
                "'schedule' has members that are not known. They are everySeconds, "
                "keep, count and quotaBytes");
  auto schedule = schedule_from_json(renamed(value, word_of_node));
  if (!schedule)
    return fail(Code::invalid_argument, "'schedule' cannot be met: {}",
                in_words_of_clients(schedule.error().message));
  return *std::move(schedule);
}

Result<std::optional<SnapshotSchedule>> parse_schedule_request(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_body(text, {"schedule"}));
  const Json* schedule = body.if_contains("schedule");
  if (schedule == nullptr)
    return fail(Code::invalid_argument, "'schedule' is missing: an object, \"default\" or \"off\"");
  return read_schedule(*schedule);
}

Json schedule_json(const std::optional<SnapshotSchedule>& schedule) {
  return schedule ? renamed(to_json(*schedule), word_of_clients) : Json(nullptr);
}

Result<RecoveryPolicy> read_recovery_policy(std::string_view word) {
  if (const auto policy = recovery_policy_from(word)) return *policy;
  return fail(Code::invalid_argument, "A recovery policy is disk, checkpoint or none");
}

Result<RecoveryPolicy> parse_recovery_request(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_body(text, {"policy"}));
  SPACE_TRY(const std::string word, require_text(body, "policy"));
  return read_recovery_policy(word);
}

Result<DiffQuery> parse_diff_query(std::string_view text) {
  DiffQuery query;
  for (const auto& [name, value] : http::parse_query(text)) {
    std::int64_t* const member = name == "from"    ? &query.from
                                 : name == "to"    ? &query.to
                                 : name == "limit" ? &query.limit
                                                   : nullptr;
    if (member == nullptr) return fail(Code::invalid_argument, "There is no parameter '{}' here", name);
    const auto number = parse_number(value, 1, name == "limit" ? diff_limit_max : INT64_MAX);
    if (!number && name == "limit")
      return fail(Code::invalid_argument, "'limit' must be between 1 and {}", diff_limit_max);
    if (!number) return fail(Code::invalid_argument, "'{}' must be the number of a snapshot", name);
    *member = *number;
  }
  if (query.from == 0 || query.to == 0)
    return fail(Code::invalid_argument, "Give 'from' and 'to', the numbers of two snapshots");
  if (query.from == query.to)
    return fail(Code::invalid_argument, "'from' and 'to' are the same snapshot: nothing differs");
  return query;
}

Result<bool> parse_snapshots_query(std::string_view text) {
  bool measure = false;
  for (const auto& [name, value] : http::parse_query(text)) {
    if (name != "measure") return fail(Code::invalid_argument, "There is no parameter '{}' here", name);
    if (value != "true" && value != "false")
      return fail(Code::invalid_argument, "'measure' must be true or false");
    measure = value == "true";
  }
  return measure;
}

}  // namespace space::control
