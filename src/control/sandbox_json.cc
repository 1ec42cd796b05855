#include "control/sandbox_json.h"

#include "control/lifetime.h"

namespace space::control {
namespace {

std::string_view word(ClientView view) {
  switch (view) {
    case ClientView::running:
      return "running";
    case ClientView::paused:
      return "paused";
    case ClientView::gone:
      return "gone";
  }
  return "gone";
}

JsonObject identity_json(const store::Sandbox& row) {
  return {{"sandboxID", row.id},
          {"templateID", row.template_id},
          {"alias", row.template_name},
          {"clientID", client_id},
          {"envdVersion", envd_version}};
}

void add_domain(JsonObject& json, const std::string& domain) {
  json["domain"] = domain.empty() ? Json(nullptr) : Json(domain);
}

void add_condition(JsonObject& json, const store::Sandbox& row) {
  json["startedAt"] = to_rfc3339(row.started_at);
  json["endAt"] = row.end_at >= never_ends ? "9999-12-31T23:59:59Z" : to_rfc3339(row.end_at);
  json["state"] = word(client_view(row.state));
  json["stateDetail"] = to_string(row.state);
  json["cpuCount"] = row.shape.vcpus;
  json["memoryMB"] = row.shape.memory_mib;
  json["diskSizeMB"] = row.shape.disk_mib;
  JsonObject metadata;
  for (const auto& [key, value] : row.options.metadata) metadata[key] = value;
  json["metadata"] = std::move(metadata);
  json["volumeMounts"] = JsonArray();
}

}  // namespace

JsonObject sandbox_json(const store::Sandbox& row, const std::string& domain) {
  JsonObject json = identity_json(row);
  add_domain(json, domain);
  if (!row.access_token.empty()) json["envdAccessToken"] = row.access_token;
  json["trafficAccessToken"] = row.traffic_token.empty() ? Json(nullptr) : Json(row.traffic_token);
  return json;
}

JsonObject sandbox_detail_json(const store::Sandbox& row, const std::string& domain) {
  JsonObject json = identity_json(row);
  add_domain(json, domain);
  if (!row.access_token.empty()) json["envdAccessToken"] = row.access_token;
  add_condition(json, row);
  json["allowInternetAccess"] =
      row.options.allow_internet_access ? Json(*row.options.allow_internet_access) : Json(nullptr);
  if (auto network = parse_json(row.options.network)) json["network"] = *std::move(network);
  json["lifecycle"] = JsonObject{{"onTimeout", row.lifecycle.pause_on_timeout ? "pause" : "kill"},
                                 {"autoResume", row.lifecycle.auto_resume}};
  return json;
}

JsonObject listed_sandbox_json(const store::Sandbox& row) {
  JsonObject json = identity_json(row);
  add_condition(json, row);
  return json;
}

JsonObject template_json(const store::Template& row) {
  return {{"templateID", row.id},
          {"name", row.name},
          {"digest", row.digest},
          {"cpuCount", row.shape.vcpus},
          {"memoryMB", row.shape.memory_mib},
          {"diskSizeMB", row.shape.disk_mib},
          {"updatedAt", to_rfc3339(row.updated_at)}};
}

}  // namespace space::control
