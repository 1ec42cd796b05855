#include "sandboxd/rpc.h"

#include <unistd.h>

#include <array>

#include "base/ids.h"
#include "sandboxd/host_memory.h"
#include "sandboxd/tunnels.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view version = "0.1.0";
constexpr Millis verb_limit = 10s;
constexpr Millis delete_limit = 60s;
constexpr Millis stats_limit = 10s;
constexpr Millis import_limit = 10min;
constexpr std::int64_t wait_ms_max = 30'000;
constexpr std::int64_t integer_max = std::int64_t{1} << 53;  // exact in every JSON reader

JsonObject to_json(const Sandbox& sandbox) {
  const SandboxRecord& record = sandbox.record();
  JsonObject object{{"id", record.id},
                    {"state", to_string(record.state)},
                    {"generation", record.generation},
                    {"template", record.template_digest},
                    {"vcpus", record.shape.vcpus},
                    {"memory_mib", record.shape.memory_mib},
                    {"disk_mib", record.shape.disk_mib},
                    {"reason", sandbox.reason()},
                    {"started_at", nullptr},
                    {"pid", nullptr}};
  if (record.started_at) object["started_at"] = to_rfc3339(*record.started_at);
  if (sandbox.pid() != 0) object["pid"] = sandbox.pid();
  return object;
}

JsonObject to_json(const SandboxEvent& event) {
  return {{"sequence", event.sequence},
          {"id", event.id},
          {"state", to_string(event.state)},
          {"reason", event.reason},
          {"at", to_rfc3339(event.at)}};
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

Result<CreateRequest> parse_create(const JsonObject& body) {
  using namespace shape_limits;
  CreateRequest request;
  SPACE_TRY(request.id, require_text(body, "id"));
  SPACE_TRY(request.generation, require_int(body, "generation", 0, integer_max));
  SPACE_TRY(request.template_digest, require_text(body, "template"));
  SPACE_TRY(request.shape.vcpus, require_int(body, "vcpus", vcpus_min, vcpus_max));
  SPACE_TRY(request.shape.memory_mib, require_int(body, "memory_mib", memory_mib_min, memory_mib_max));
  SPACE_TRY(request.shape.disk_mib, require_int(body, "disk_mib", disk_mib_min, disk_mib_max));
  SPACE_TRY(request.guest_init, parse_guest_init(body));
  return request;
}

// A call's failure as HTTP: as between any two parts, except that an unavailable node is 503, not a gateway's
// 502.
CallResponse to_response(const Error& error) {
  const int status = error.code == Code::unavailable ? 503 : http_status_of(error.code);
  return {status, to_text(JsonObject{{"code", to_string(error.code)}, {"message", error.message}})};
}

Result<std::shared_ptr<Sandbox>> find(const Manager& manager, const JsonObject& body) {
  SPACE_TRY(const std::string id, require_text(body, "id"));
  auto sandbox = manager.find(id);
  if (!sandbox)
    return fail(Code::not_found, "sandbox {} is not on this node", id.substr(0, sandbox_id_length));
  return sandbox;
}

}  // namespace

H2Handlers NodeRpc::handlers() {
  H2Handlers handlers;
  handlers.call = [this](CallRequest request) { return call(std::move(request)); };
  handlers.connect = [this](std::string authority) {
    return open_tunnel(parts_.manager, std::move(authority));
  };
  return handlers;
}

Task<CallResponse> NodeRpc::call(CallRequest request) {
  auto body = parse_json_object(request.body.empty() ? "{}" : request.body, "request body");
  if (!body) co_return to_response(body.error());
  auto answer = co_await dispatch(std::move(request.path), *std::move(body));
  if (!answer) co_return to_response(answer.error());
  co_return CallResponse{200, to_text(*std::move(answer))};
}

NodeRpc::Answer NodeRpc::dispatch(std::string path, JsonObject body) {
  using Method = Answer (NodeRpc::*)(JsonObject);
  static constexpr std::array<std::pair<std::string_view, Method>, 10> methods = {{
      {"/node/hello", &NodeRpc::hello},
      {"/node/sandbox/create", &NodeRpc::create},
      {"/node/sandbox/delete", &NodeRpc::remove},
      {"/node/sandbox/get", &NodeRpc::get},
      {"/node/sandbox/list", &NodeRpc::list},
      {"/node/sandbox/stats", &NodeRpc::stats},
      {"/node/events", &NodeRpc::events},
      {"/node/template/list", &NodeRpc::list_templates},
      {"/node/template/import", &NodeRpc::import_template},
      {"/node/template/remove", &NodeRpc::remove_template},
  }};
  for (const auto& [name, method] : methods)
    if (name == path) co_return co_await (this->*method)(std::move(body));
  co_return fail(Code::not_found, "no such call");
}

NodeRpc::Answer NodeRpc::hello(JsonObject) {
  const PoolInfo pool = (co_await parts_.noded.pool_info(Deadline::after(verb_limit))).value_or(PoolInfo{});
  co_return JsonObject{{"node_id", parts_.node_id},
                       {"version", version},
                       {"accelerator", to_string(parts_.accelerator.known())},
                       {"memory_mib", host_memory_mib()},
                       {"vcpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
                       {"pool_free_bytes", pool.free_bytes}};
}

NodeRpc::Answer NodeRpc::create(JsonObject body) {
  SPACE_CO_TRY(CreateRequest request, parse_create(body));
  const MachineAccelerator accelerator = co_await parts_.accelerator.get();
  SPACE_CO_TRY(const auto sandbox, co_await parts_.manager.create(std::move(request), accelerator));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::remove(JsonObject body) {
  SPACE_CO_TRY(std::string id, require_text(body, "id"));
  SPACE_CO_CHECK(co_await parts_.manager.remove(std::move(id), Deadline::after(delete_limit)));
  co_return JsonObject();
}

NodeRpc::Answer NodeRpc::get(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find(parts_.manager, body));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::list(JsonObject) {
  JsonArray sandboxes;
  for (const auto& sandbox : parts_.manager.list()) sandboxes.push_back(to_json(*sandbox));
  co_return JsonObject{{"sandboxes", std::move(sandboxes)}};
}

NodeRpc::Answer NodeRpc::stats(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find(parts_.manager, body));
  SPACE_CO_TRY(JsonObject stats, co_await sandbox->stats(Deadline::after(stats_limit)));
  stats["sampled_at"] = to_rfc3339(system_clock().wall());
  co_return stats;
}

NodeRpc::Answer NodeRpc::events(JsonObject body) {
  SPACE_CO_TRY(const std::int64_t after, require_int(body, "after", 0, integer_max));
  SPACE_CO_TRY(const auto wait_ms, int_member(body, "wait_ms", 0, wait_ms_max));
  const EventPage page = co_await parts_.events.wait(static_cast<std::uint64_t>(after),
                                                     Deadline::after(Millis(wait_ms.value_or(0))));
  JsonArray events;
  for (const SandboxEvent& event : page.events) events.push_back(to_json(event));
  co_return JsonObject{{"events", std::move(events)}, {"next", page.next}, {"gap", page.gap}};
}

NodeRpc::Answer NodeRpc::list_templates(JsonObject) {
  SPACE_CO_TRY(JsonArray templates, co_await parts_.templates.list(Deadline::after(verb_limit)));
  co_return JsonObject{{"templates", std::move(templates)}};
}

NodeRpc::Answer NodeRpc::import_template(JsonObject body) {
  SPACE_CO_TRY(std::string digest, require_text(body, "digest"));
  co_return co_await parts_.templates.import(std::move(digest), Deadline::after(import_limit));
}

NodeRpc::Answer NodeRpc::remove_template(JsonObject body) {
  SPACE_CO_TRY(std::string digest, require_text(body, "digest"));
  SPACE_CO_CHECK(co_await parts_.templates.remove(std::move(digest), Deadline::after(verb_limit)));
  co_return JsonObject();
}

}  // namespace space
