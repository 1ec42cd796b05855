#include "control/move_json.h"

namespace space::control {
namespace {

struct Name {
  std::string_view of_node;
  std::string_view ours;
};

constexpr Name snapshot_numbers[] = {{"number", "number"},
                                     {"memory_bytes", "memoryBytes"},
                                     {"dirty_bytes", "dirtyBytes"},
                                     {"written_bytes", "writtenBytes"},
                                     {"stop_window_us", "stopWindowUs"}};
constexpr Name pool_numbers[] = {
    {"vcpus", "cpuCount"}, {"memory_mib", "memoryMB"}, {"disk_mib", "diskSizeMB"}, {"target", "target"},
    {"parked", "parked"},  {"filling", "filling"},     {"hits", "hits"},           {"misses", "misses"}};

template <std::size_t n>
Result<JsonObject> translate(const JsonObject& from, const Name (&names)[n]) {
  JsonObject json;
  for (const Name& name : names) {
    const auto value = require_int(from, name.of_node, 0, INT64_MAX);
    if (!value) return fail(Code::internal, "the node's answer: {}", value.error().message);
    json[name.ours] = *value;
  }
  return json;
}

Result<JsonArray> members(const JsonObject& from, std::string_view key) {
  SPACE_TRY(const JsonArray* given, array_member(from, key));
  if (given == nullptr) return fail(Code::internal, "the node's answer has no {}", key);
  for (const Json& value : *given)
    if (!value.is_object()) return fail(Code::internal, "the node's {} hold something else", key);
  return *given;
}

Result<JsonObject> pool_json(const JsonObject& from, const std::map<std::string, std::string>& names) {
  SPACE_TRY(JsonObject json, translate(from, pool_numbers));
  SPACE_TRY(const std::string digest, require_text(from, "template"));
  SPACE_TRY(const auto checkpoint, bool_member(from, "checkpoint"));
  const auto name = names.find(digest);
  json["digest"] = digest;
  json["template"] = name == names.end() ? Json(nullptr) : Json(name->second);
  json["checkpoint"] = checkpoint.value_or(false);
  return json;
}

}  // namespace

Result<JsonObject> snapshot_json(const JsonObject& from_node) {
  SPACE_TRY(JsonObject json, translate(from_node, snapshot_numbers));
  SPACE_TRY(const std::string created_at, require_text(from_node, "created_at"));
  SPACE_TRY(const auto parent, int_member(from_node, "parent", 0, INT64_MAX));
  SPACE_TRY(const auto quiesced, bool_member(from_node, "quiesced"));
  json["createdAt"] = created_at;
  json["parent"] = parent && *parent > 0 ? Json(*parent) : Json(nullptr);
  json["quiesced"] = quiesced.value_or(false);
  return json;
}

Result<JsonObject> snapshots_json(const JsonObject& from_node) {
  SPACE_TRY(const JsonArray given, members(from_node, "snapshots"));
  JsonArray snapshots;
  for (const Json& value : given) {
    SPACE_TRY(auto json, snapshot_json(value.get_object()));
    snapshots.push_back(std::move(json));
  }
  return JsonObject{{"snapshots", std::move(snapshots)}};
}

JsonObject policy_json(const store::PausePolicy& policy) {
  const auto seconds = [](std::optional<std::int64_t> value) { return value ? Json(*value) : Json(nullptr); };
  return {{"idlePauseSeconds", seconds(policy.idle_pause_s)}, {"hotKeepSeconds", seconds(policy.hot_keep_s)}};
}

Result<void> add_node_view(JsonObject& json, const store::Sandbox& row, const JsonObject& from_node) {
  json["pausePolicy"] = policy_json(row.policy);
  SPACE_TRY(const auto idle, bool_member(from_node, "idle"));
  SPACE_TRY(const auto memory, text_member(from_node, "memory"));
  SPACE_TRY(const auto counter, int_member(from_node, "generation_counter", 0, INT64_MAX));
  SPACE_TRY(const JsonObject* source, object_member(from_node, "restored_from"));
  json["idle"] = idle ? Json(*idle) : Json(nullptr);
  json["memory"] = memory ? Json(*memory) : Json(nullptr);
  json["generationCounter"] = counter ? Json(*counter) : Json(nullptr);
  json["restoredFrom"] = nullptr;
  if (source == nullptr) return {};
  SPACE_TRY(const std::string sandbox, require_text(*source, "sandbox"));
  SPACE_TRY(const auto number, require_int(*source, "number", 0, INT64_MAX));
  json["restoredFrom"] = JsonObject{{"sandboxID", sandbox}, {"number", number}};
  return {};
}

Result<JsonObject> pools_json(const JsonObject& from_node, const std::map<std::string, std::string>& names) {
  SPACE_TRY(const JsonArray given, members(from_node, "pools"));
  JsonArray pools;
  for (const Json& value : given) {
    SPACE_TRY(auto json, pool_json(value.get_object(), names));
    pools.push_back(std::move(json));
  }
  return JsonObject{{"pools", std::move(pools)}};
}

}  // namespace space::control
