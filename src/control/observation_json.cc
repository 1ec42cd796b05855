#include "control/observation_json.h"

#include <fmt/core.h>

#include <array>

#include "base/clock.h"

namespace space::control {
namespace {

// Microseconds since 1970. With six decimals each line has a time of its own, by which a reader goes on.
std::string time_text(std::int64_t us) {
  std::string text = to_rfc3339(Wall(Millis(us / 1000)));
  text.insert(text.size() - 1, fmt::format("{:03}", us % 1000));
  return text;
}

Json value_or_null(const JsonObject& object, std::string_view key) {
  const Json* value = object.if_contains(key);
  return value == nullptr ? Json(nullptr) : *value;
}

template <std::size_t N>
JsonObject renamed(const JsonObject& object,
                   const std::array<std::pair<std::string_view, std::string_view>, N>& names) {
  JsonObject result;
  for (const auto& [ours, theirs] : names) result[ours] = value_or_null(object, theirs);
  return result;
}

JsonObject log_entry(const JsonObject& entry) {
  const auto sequence = int_member(entry, "sequence", 0, INT64_MAX);
  const Json fields = value_or_null(entry, "fields");
  return {{"timestamp", time_text(sequence ? sequence->value_or(0) : 0)},
          {"message", value_or_null(entry, "message")},
          {"level", value_or_null(entry, "level")},
          {"fields", fields.is_object() ? fields : Json(JsonObject())}};
}

// "sandbox died reason=\"…\"", for clients that know lines only.
std::string line_of(const JsonObject& entry) {
  std::string line(entry.at("message").is_string() ? entry.at("message").get_string() : "");
  for (const auto& [name, value] : entry.at("fields").get_object())
    line += fmt::format(" {}={}", std::string_view(name), to_text(value));
  return line;
}

JsonObject activity_json(const JsonObject& activity) {
  using Names = std::array<std::pair<std::string_view, std::string_view>, 7>;
  JsonObject result = renamed(activity, Names{{{"lastActiveAt", "last_active_at"},
                                               {"idleSeconds", "idle_s"},
                                               {"reasons", "reasons"},
                                               {"streams", "streams"},
                                               {"bytesIn", "bytes_in"},
                                               {"bytesOut", "bytes_out"},
                                               {"wakeAt", "wake_at"}}});
  JsonArray leases;
  if (const auto given = array_member(activity, "leases"); given && *given)
    for (const Json& lease : **given)
      if (const auto* object = lease.if_object())
        leases.push_back(JsonObject{{"name", value_or_null(*object, "name")},
                                    {"expiresAt", value_or_null(*object, "expires_at")}});
  result["leases"] = std::move(leases);
  return result;
}

using LayerNames = std::array<std::pair<std::string_view, std::string_view>, 3>;

bool is_layer(const JsonObject& object) {
  const Json state = value_or_null(object, "state");
  return value_or_null(object, "name").is_string() && value_or_null(object, "detail").is_string() &&
         (state == "active" || state == "off" || state == "unavailable");
}

}  // namespace

JsonObject logs_json(const JsonObject& node_answer, LogRoute route) {
  JsonArray entries;
  JsonArray lines;
  if (const auto given = array_member(node_answer, "entries"); given && *given)
    for (const Json& value : **given) {
      if (!value.is_object()) continue;
      JsonObject entry = log_entry(value.get_object());
      if (route == LogRoute::v1)
        lines.push_back(JsonObject{{"timestamp", entry["timestamp"]}, {"line", line_of(entry)}});
      entries.push_back(std::move(entry));
    }
  if (route == LogRoute::v2) return {{"logs", std::move(entries)}};
  return {{"logs", std::move(lines)}, {"logEntries", std::move(entries)}};
}

JsonObject stats_json(const store::Sandbox& row, const JsonObject& node_answer) {
  using Names = std::array<std::pair<std::string_view, std::string_view>, 10>;
  JsonObject result{
      {"sandboxID", row.id}, {"templateID", row.template_id},           {"alias", row.template_name},
      {"state", "running"},  {"startedAt", to_rfc3339(row.started_at)}, {"stats", nullptr},
      {"activity", nullptr}};
  if (node_answer.contains("cpu_count"))
    result["stats"] = renamed(node_answer, Names{{{"timestamp", "sampled_at"},
                                                  {"cpuCount", "cpu_count"},
                                                  {"cpuUsedPct", "cpu_used_pct"},
                                                  {"memUsed", "mem_used"},
                                                  {"memTotal", "mem_total"},
                                                  {"memCache", "mem_cache"},
                                                  {"diskUsed", "disk_used"},
                                                  {"diskTotal", "disk_total"},
                                                  {"processes", "processes"},
                                                  {"tasks", "tasks"}}});
  result["vmm"] = JsonObject{{"cpuUs", value_or_null(node_answer, "vmm_cpu_us")},
                             {"rss", value_or_null(node_answer, "vmm_rss")}};
  if (const auto activity = object_member(node_answer, "activity"); activity && *activity)
    result["activity"] = activity_json(**activity);
  return result;
}

Result<JsonObject> isolation_json(const std::string& id, const JsonObject& node_answer) {
  const Json accelerator = value_or_null(node_answer, "accelerator");
  const Json layers = value_or_null(node_answer, "layers");
  const bool hardware = accelerator == "kvm";
  if ((!hardware && accelerator != "tcg") || !layers.is_array() || layers.get_array().empty())
    return fail(Code::internal, "the node did not say how sandbox {} is isolated", id);
  JsonArray listed;
  for (const Json& layer : layers.get_array()) {
    const auto* object = layer.if_object();
    if (object == nullptr || !is_layer(*object))
      return fail(Code::internal, "the node reported a layer that is none");
    listed.push_back(
        renamed(*object, LayerNames{{{"name", "name"}, {"state", "state"}, {"detail", "detail"}}}));
  }
  return JsonObject{{"sandboxID", id},
                    {"hardwareIsolation", hardware},
                    {"accelerator", accelerator},
                    {"summary", hardware ? "hardware isolation: yes (KVM)" : "hardware isolation: NO (TCG)"},
                    {"layers", std::move(listed)}};
}

}  // namespace space::control
