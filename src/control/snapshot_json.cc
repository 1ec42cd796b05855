#include "control/snapshot_json.h"

#include <algorithm>
#include <initializer_list>

#include "base/ids.h"

namespace space::control {
namespace {

constexpr std::size_t text_bytes_max = 2'048;
constexpr std::size_t path_bytes_max = 16'384;  // of 4,096 bytes, each spelt out
constexpr std::size_t word_bytes_max = 32;
constexpr std::size_t users_max = 1'000;
constexpr std::size_t entries_max = 20'000;

template <class T>
Result<T> of_node(Result<T> value) {
  if (!value) return fail(Code::internal, "the node's answer: {}", value.error().message);
  return value;
}

Result<std::int64_t> count_in(const JsonObject& from, std::string_view key) {
  return of_node(require_int(from, key, 0, INT64_MAX));
}

Result<Json> number_or_null(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const auto number, of_node(int_member(from, key, 0, INT64_MAX)));
  return number && *number > 0 ? Json(*number) : Json(nullptr);
}

Result<bool> flag(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const auto value, of_node(bool_member(from, key)));
  return value.value_or(false);
}

Result<Json> text_or_null(const JsonObject& from, std::string_view key, std::size_t bytes_max) {
  SPACE_TRY(auto text, of_node(text_member(from, key)));
  if (!text || text->empty()) return Json(nullptr);
  if (text->size() > bytes_max)
    return fail(Code::internal, "the node's answer: '{}' is longer than {} bytes", key, bytes_max);
  return Json(*text);
}

Result<std::string> one_of(const JsonObject& from, std::string_view key,
                           std::initializer_list<std::string_view> known) {
  SPACE_TRY(auto word, of_node(require_text(from, key)));
  if (std::ranges::find(known, std::string_view(word)) == known.end())
    return fail(Code::internal, "the node's answer: '{}' is none of those that exist", key);
  return word;
}

// Of a list that may grow: a plain word.
Result<std::string> word_in(const JsonObject& from, std::string_view key) {
  SPACE_TRY(auto word, of_node(require_text(from, key)));
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (word.empty() || word.size() > word_bytes_max || !std::ranges::all_of(word, plain))
    return fail(Code::internal, "the node's answer: '{}' is no word", key);
  return word;
}

Result<std::string> time_in(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const auto text, of_node(require_text(from, key)));
  const auto time = parse_rfc3339(text);
  if (!time) return fail(Code::internal, "the node's answer: '{}' is no time", key);
  return to_rfc3339(*time);
}

Result<std::string> checked_id(std::string id) {
  if (!is_sandbox_id(id)) return fail(Code::internal, "the node's answer names something that is no sandbox");
  return id;
}

Result<JsonArray> objects_in(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const JsonArray* given, of_node(array_member(from, key)));
  if (given == nullptr) return fail(Code::internal, "the node's answer has no {}", key);
  if (given->size() > entries_max) return fail(Code::internal, "the node's answer has too many {}", key);
  for (const Json& value : *given)
    if (!value.is_object()) return fail(Code::internal, "the node's {} hold something else", key);
  return *given;
}

template <class Make>
Result<JsonArray> each(const JsonObject& from, std::string_view key, Make make) {
  SPACE_TRY(const JsonArray given, objects_in(from, key));
  JsonArray made;
  for (const Json& value : given) {
    SPACE_TRY(auto json, make(value.get_object()));
    made.push_back(std::move(json));
  }
  return made;
}

Result<JsonArray> users(const JsonObject& from) {
  JsonArray ids;
  SPACE_TRY(const JsonArray* given, of_node(array_member(from, "used_by")));
  if (given == nullptr) return ids;
  for (const Json& value : *given) {
    if (ids.size() == users_max) break;
    const auto* text = value.if_string();
    SPACE_TRY(auto id, checked_id(text != nullptr ? std::string(*text) : std::string()));
    ids.push_back(Json(id));
  }
  return ids;
}

Result<Json> snapshot_id_json(const JsonObject& from) {
  SPACE_TRY(const auto sandbox, of_node(require_text(from, "sandbox")));
  SPACE_TRY(auto id, checked_id(sandbox));
  SPACE_TRY(const auto number, count_in(from, "number"));
  return JsonObject{{"sandboxID", id}, {"number", number}};
}

Result<Json> snapshot_id_or_null(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const JsonObject* given, of_node(object_member(from, key)));
  if (given == nullptr) return Json(nullptr);
  return snapshot_id_json(*given);
}

Result<JsonObject> fork_of(const JsonObject& from) {
  SPACE_TRY(const auto text, of_node(require_text(from, "id")));
  SPACE_TRY(auto id, checked_id(text));
  SPACE_TRY(const auto number, count_in(from, "number"));
  return JsonObject{{"sandboxID", id}, {"number", number}};
}

Result<JsonObject> event_of(const JsonObject& from) {
  JsonObject json;
  SPACE_TRY(json["at"], time_in(from, "at"));
  SPACE_TRY(json["kind"], word_in(from, "kind"));
  SPACE_TRY(json["number"], number_or_null(from, "number"));
  SPACE_TRY(json["text"], text_or_null(from, "text", text_bytes_max));
  if (json["text"].is_null()) json["text"] = "";
  json["sandboxID"] = nullptr;
  SPACE_TRY(const auto other, of_node(text_member(from, "other")));
  if (other && !other->empty()) {
    SPACE_TRY(json["sandboxID"], checked_id(*other));
  }
  return json;
}

Result<JsonObject> change_of(const JsonObject& from) {
  JsonObject json;
  SPACE_TRY(json["path"], text_or_null(from, "path", path_bytes_max));
  if (json["path"].is_null()) return fail(Code::internal, "the node's answer has a change without a path");
  SPACE_TRY(json["change"], one_of(from, "change", {"added", "removed", "changed"}));
  SPACE_TRY(json["type"], word_in(from, "type"));
  SPACE_TRY(json["size"], count_in(from, "size"));
  return json;
}

Result<Json> recovered_json(const JsonObject& from_node) {
  SPACE_TRY(const JsonObject* given, of_node(object_member(from_node, "recovered")));
  if (given == nullptr) return Json(nullptr);
  JsonObject json;
  SPACE_TRY(json["at"], time_in(*given, "at"));
  SPACE_TRY(const JsonObject* source, of_node(object_member(*given, "from")));
  if (source == nullptr) return fail(Code::internal, "the node does not say from what it recovered");
  JsonObject point;
  SPACE_TRY(point["kind"], one_of(*source, "kind", {"live_disk", "disk", "full"}));
  SPACE_TRY(point["number"], number_or_null(*source, "number"));
  point["createdAt"] = nullptr;
  SPACE_TRY(const auto created, of_node(text_member(*source, "created_at")));
  if (created) {
    SPACE_TRY(point["createdAt"], time_in(*source, "created_at"));
  }
  json["from"] = std::move(point);
  SPACE_TRY(json["cause"], text_or_null(*given, "cause", text_bytes_max));
  if (json["cause"].is_null()) json["cause"] = "";
  SPACE_TRY(json["count"], count_in(*given, "count"));
  return json;
}

}  // namespace

Result<JsonObject> snapshot_json(const JsonObject& from_node) {
  JsonObject json;
  SPACE_TRY(json["number"], count_in(from_node, "number"));
  SPACE_TRY(json["parent"], number_or_null(from_node, "parent"));
  SPACE_TRY(json["kind"], one_of(from_node, "kind", {"full", "disk"}));
  SPACE_TRY(const auto cause, of_node(require_text(from_node, "cause")));
  if (!snapshot_cause_from(cause))
    return fail(Code::internal, "the node's answer: a cause that does not exist");
  json["cause"] = cause;
  SPACE_TRY(json["createdAt"], time_in(from_node, "created_at"));
  SPACE_TRY(json["name"], text_or_null(from_node, "name", snapshot_name_max));
  SPACE_TRY(json["quiesced"], flag(from_node, "quiesced"));
  SPACE_TRY(json["pinned"], flag(from_node, "pinned"));
  SPACE_TRY(json["published"], flag(from_node, "published"));
  SPACE_TRY(json["onLineage"], flag(from_node, "on_lineage"));
  SPACE_TRY(json["usedBy"], users(from_node));
  SPACE_TRY(json["memoryBytes"], count_in(from_node, "memory_bytes"));
  SPACE_TRY(json["dirtyBytes"], count_in(from_node, "dirty_bytes"));
  SPACE_TRY(json["writtenBytes"], count_in(from_node, "written_bytes"));
  SPACE_TRY(json["stopWindowUs"], count_in(from_node, "stop_window_us"));
  if (from_node.contains("exclusive_bytes")) {
    SPACE_TRY(json["exclusiveBytes"], count_in(from_node, "exclusive_bytes"));
  }
  return json;
}

Result<JsonObject> snapshots_json(const JsonObject& from_node) {
  JsonObject json;
  SPACE_TRY(json["snapshots"], each(from_node, "snapshots", snapshot_json));
  return json;
}

Result<JsonObject> history_json(const JsonObject& from_node) {
  JsonObject json;
  SPACE_TRY(json["head"], number_or_null(from_node, "head"));
  SPACE_TRY(json["origin"], snapshot_id_or_null(from_node, "origin"));
  SPACE_TRY(json["snapshots"], each(from_node, "snapshots", snapshot_json));
  SPACE_TRY(json["forks"], each(from_node, "forks", fork_of));
  SPACE_TRY(json["events"], each(from_node, "events", event_of));
  return json;
}

Result<JsonObject> diff_json(const JsonObject& from_node, std::int64_t limit) {
  SPACE_TRY(JsonArray changes, each(from_node, "changes", change_of));
  SPACE_TRY(bool truncated, flag(from_node, "truncated"));
  if (changes.size() > static_cast<std::size_t>(limit)) {
    changes.resize(static_cast<std::size_t>(limit));
    truncated = true;
  }
  SPACE_TRY(const bool approximate, flag(from_node, "approximate"));
  return JsonObject{{"changes", std::move(changes)}, {"truncated", truncated}, {"approximate", approximate}};
}

Result<JsonObject> recovery_json(const store::Sandbox& row, const JsonObject& from_node) {
  JsonObject json{{"policy", to_string(row.recovery)},
                  {"state", to_string(row.state)},
                  {"reason", row.reason.empty() ? Json(nullptr) : Json(row.reason)}};
  SPACE_TRY(json["recovered"], recovered_json(from_node));
  return json;
}

Result<void> add_lineage(JsonObject& json, const store::Sandbox& row, const JsonObject& from_node) {
  json["reason"] = row.reason.empty() ? Json(nullptr) : Json(row.reason);
  json["schedule"] = schedule_json(row.schedule);
  json["recovery"] = to_string(row.recovery);
  SPACE_TRY(json["head"], number_or_null(from_node, "head"));
  SPACE_TRY(json["origin"], snapshot_id_or_null(from_node, "origin"));
  SPACE_TRY(json["recovered"], recovered_json(from_node));
  json["diskKept"] = is_failed(row.state);
  return {};
}

}  // namespace space::control
