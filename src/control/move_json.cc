#include "control/move_json.h"

#include "control/snapshot_json.h"

namespace space::control {
namespace {

struct Name {
  std::string_view of_node;
  std::string_view ours;
};

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

JsonObject policy_json(const store::PausePolicy& policy) {
  const auto seconds = [](std::optional<std::int64_t> value) { return value ? Json(*value) : Json(nullptr); };
  return {{"idlePauseSeconds", seconds(policy.idle_pause_s)}, {"hotKeepSeconds", seconds(policy.hot_keep_s)}};
}

Result<void> add_node_view(JsonObject& json, const store::Sandbox& row, const JsonObject& from_node) {
  json["pausePolicy"] = policy_json(row.policy);
  SPACE_CHECK(add_lineage(json, row, from_node));
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
