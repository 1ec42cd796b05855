#include "sandboxd/rpc_json.h"

#include <algorithm>

#include "base/ids.h"
#include "core/lineage.h"

namespace space {
namespace {

Json or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::optional<SnapshotId>& id) {
  return id ? Json(to_json(*id)) : Json(nullptr);
}

Json to_json_or_null(const std::optional<RecoveryNote>& note) {
  if (!note) return nullptr;
  JsonObject from{{"kind", to_string(note->point.from)}};
  if (note->point.from != RecoveredFrom::live_disk) from["number"] = note->point.number;
  if (note->point_created_at) from["created_at"] = to_rfc3339(*note->point_created_at);
  return JsonObject{{"at", to_rfc3339(note->at)},
                    {"from", std::move(from)},
                    {"cause", note->cause},
                    {"count", note->count}};
}

}  // namespace

JsonObject to_json(const PausePolicy& policy) {
  return {{"idle_pause_s", or_null(policy.idle_pause_s)}, {"hot_keep_s", or_null(policy.hot_keep_s)}};
}

JsonObject to_json(const SnapshotId& snapshot) {
  return {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}};
}

JsonObject to_json(const HistoryRow& row) {
  return {{"at", to_rfc3339(row.at)},
          {"kind", to_string(row.kind)},
          {"number", row.number ? Json(*row.number) : Json(nullptr)},
          {"other", row.other ? Json(*row.other) : Json(nullptr)},
          {"text", row.text}};
}

JsonObject to_json(const Sandbox& sandbox, const SnapshotRecord& snapshot,
                   const std::vector<std::string>& used_by) {
  JsonArray users;
  if (sandbox.needs_itself(snapshot.number)) users.push_back(Json(snapshot.sandbox));
  for (const std::string& user : used_by)
    if (user != snapshot.sandbox) users.push_back(Json(user));
  return {{"number", snapshot.number},
          {"parent", snapshot.parent ? Json(*snapshot.parent) : Json(nullptr)},
          {"kind", to_string(snapshot.kind)},
          {"cause", to_string(snapshot.cause)},
          {"created_at", to_rfc3339(snapshot.created_at)},
          {"quiesced", snapshot.quiesced},
          {"name", snapshot.name.empty() ? Json(nullptr) : Json(snapshot.name)},
          {"pinned", snapshot.pinned},
          {"published", snapshot.published},
          {"on_lineage", on_lineage(sandbox.snapshots(), sandbox.record().head, snapshot.number)},
          {"used_by", std::move(users)},
          {"memory_bytes", snapshot.memory_bytes},
          {"dirty_bytes", snapshot.dirty_bytes},
          {"written_bytes", snapshot.written_bytes},
          {"stop_window_us", snapshot.stop_window_us}};
}

JsonObject to_json(const Sandbox& sandbox) {
  const SandboxRecord& record = sandbox.record();
  JsonObject object{{"id", record.id},
                    {"state", to_string(record.state)},
                    {"generation", record.generation},
                    {"template", record.template_digest},
                    {"vcpus", record.shape.vcpus},
                    {"memory_mib", record.shape.memory_mib},
                    {"disk_mib", record.shape.disk_mib},
                    {"team", record.team},
                    {"accelerator", to_string(record.accelerator)},
                    {"reason", sandbox.reason()},
                    {"started_at", nullptr},
                    {"wake_at", nullptr},
                    {"pid", nullptr},
                    {"idle", record.idle},
                    {"memory", sandbox.memory_word()},
                    {"restored_from", or_null(record.restored_from)},
                    {"generation_counter", record.counter},
                    {"policy", to_json(record.policy)},
                    {"head", record.head == 0 ? Json(nullptr) : Json(record.head)},
                    {"origin", or_null(record.origin)},
                    {"schedule", nullptr},
                    {"recovery", to_string(record.recovery)},
                    {"recovered", to_json_or_null(record.recovered)},
                    {"disk_kept", sandbox.disk_kept()},
                    {"awaits_init", sandbox.awaits_init()},
                    {"egress_generation", record.egress_generation}};
  const NetworkState network = sandbox.network();
  object["network"] = JsonObject{{"state", network.state}, {"reason", network.reason}};
  if (record.schedule) object["schedule"] = to_json(*record.schedule);
  if (record.started_at) object["started_at"] = to_rfc3339(*record.started_at);
  if (record.wake_at) object["wake_at"] = to_rfc3339(*record.wake_at);
  if (sandbox.pid() != 0) object["pid"] = sandbox.pid();
  return object;
}

Result<SnapshotId> parse_snapshot_id(const JsonObject& body) {
  SnapshotId id;
  SPACE_TRY(id.sandbox, require_text(body, "sandbox"));
  SPACE_TRY(const std::int64_t number, require_int(body, "number", 1, rpc_integer_max));
  id.number = static_cast<std::uint64_t>(number);
  if (!is_sandbox_id(id.sandbox)) return fail(Code::invalid_argument, "'sandbox' is not a sandbox id");
  return id;
}

Result<GuestInit> parse_guest_init(const JsonObject& body) {
  GuestInit init;
  SPACE_TRY(std::string token, require_text(body, "access_token"));
  init.access_token = SecretText(std::move(token));
  SPACE_TRY(const JsonObject* env, object_member(body, "env"));
  if (env) {
    for (const auto& [name, value] : *env)
      if (!value.is_string()) return fail(Code::invalid_argument, "env: every value is a text");
    init.env = Secret<JsonObject>(*env);
  }
  SPACE_TRY(init.default_user, text_member(body, "default_user"));
  SPACE_TRY(init.default_workdir, text_member(body, "default_workdir"));
  return init;
}

Result<std::shared_ptr<Sandbox>> find_sandbox(const Manager& manager, const JsonObject& body) {
  SPACE_TRY(const std::string id, require_text(body, "id"));
  auto sandbox = manager.find(id);
  if (!sandbox)
    return fail(Code::not_found, "sandbox {} is not on this node", id.substr(0, sandbox_id_length));
  return sandbox;
}

}  // namespace space
