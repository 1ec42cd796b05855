#include "sandboxd/rpc.h"

#include <unistd.h>

#include <array>

#include "base/ids.h"
#include "sandboxd/host_memory.h"
#include "sandboxd/isolation.h"
#include "sandboxd/rpc_json.h"
#include "sandboxd/tunnels.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis verb_limit = 10s;
constexpr Millis delete_limit = 60s;
constexpr Millis stats_limit = 6s;
constexpr Millis all_stats_limit = 2s;
constexpr Millis log_poll = 1s;
constexpr std::size_t stats_ids_max = 1000;
constexpr std::int64_t log_limit_max = 1000;
constexpr std::size_t search_bytes_max = 256;
constexpr Millis import_limit = 10min;
constexpr std::int64_t wait_ms_max = 30'000;
// Past it a call answers, and what it began goes on.
constexpr Millis rest_limit = 40s;
constexpr Millis checkpoint_limit = 5min;
constexpr std::int64_t policy_seconds_max = 365 * 24 * 3600;

JsonObject to_json(const SandboxEvent& event) {
  return {{"sequence", event.sequence}, {"id", event.id},         {"state", to_string(event.state)},
          {"idle", event.idle},         {"reason", event.reason}, {"at", to_rfc3339(event.at)}};
}

JsonObject to_json(const LogEntry& entry) {
  JsonObject fields;
  for (const auto& [name, value] : entry.fields) fields[name] = value;
  return {{"sequence", entry.sequence},
          {"level", to_string(entry.level)},
          {"message", entry.message},
          {"fields", std::move(fields)}};
}

Result<LogQuery> parse_log_query(const JsonObject& body) {
  LogQuery query;
  SPACE_TRY(const auto after, int_member(body, "after", 0, rpc_integer_max));
  SPACE_TRY(const auto before, int_member(body, "before", 0, rpc_integer_max));
  SPACE_TRY(const auto limit, int_member(body, "limit", 1, log_limit_max));
  SPACE_TRY(const auto backward, bool_member(body, "backward"));
  SPACE_TRY(const auto level, text_member(body, "level"));
  SPACE_TRY(auto search, text_member(body, "search"));
  query.search = std::move(search).value_or("");
  if (query.search.size() > search_bytes_max)
    return fail(Code::invalid_argument, "'search' is longer than {} bytes", search_bytes_max);
  if (after) query.after = static_cast<std::uint64_t>(*after);
  if (before) query.before = static_cast<std::uint64_t>(*before);
  if (limit) query.limit = static_cast<std::size_t>(*limit);
  query.backward = backward.value_or(false);
  if (!level) return query;
  const auto known = log_level_from(*level);
  if (!known) return fail(Code::invalid_argument, "'level' must be debug, info, warn or error");
  query.level = *known;
  return query;
}

// Absent: as it is. null: the node's default.
Result<void> change_policy(const JsonObject& body, PausePolicy& policy) {
  const auto change = [&](const char* name, std::optional<std::int64_t>& value,
                          std::int64_t min) -> Result<void> {
    const auto found = body.find(name);
    if (found == body.end()) return {};
    value.reset();
    if (found->value().is_null()) return {};
    SPACE_TRY(value, int_member(body, name, min, policy_seconds_max));
    return {};
  };
  SPACE_CHECK(change("idle_pause_s", policy.idle_pause_s, 1));
  return change("hot_keep_s", policy.hot_keep_s, 0);
}

Result<VmKind> parse_kind(const JsonObject& body) {
  using namespace shape_limits;
  VmKind kind;
  SPACE_TRY(kind.template_digest, require_text(body, "template"));
  SPACE_TRY(kind.shape.vcpus, require_int(body, "vcpus", vcpus_min, vcpus_max));
  SPACE_TRY(kind.shape.memory_mib, require_int(body, "memory_mib", memory_mib_min, memory_mib_max));
  SPACE_TRY(kind.shape.disk_mib, require_int(body, "disk_mib", disk_mib_min, disk_mib_max));
  return kind;
}

// What of it is named.
Result<void> parse_named_kind(const JsonObject& body, CreateRequest& request) {
  SPACE_TRY(auto digest, text_member(body, "template"));
  SPACE_TRY(const auto vcpus, int_member(body, "vcpus", 1, rpc_integer_max));
  SPACE_TRY(const auto memory_mib, int_member(body, "memory_mib", 1, rpc_integer_max));
  SPACE_TRY(const auto disk_mib, int_member(body, "disk_mib", 1, rpc_integer_max));
  request.template_digest = std::move(digest).value_or("");
  request.shape = {vcpus.value_or(0), memory_mib.value_or(0), disk_mib.value_or(0)};
  return {};
}

Result<std::optional<SnapshotId>> parse_from(const JsonObject& body) {
  SPACE_TRY(const JsonObject* from, object_member(body, "from"));
  if (from == nullptr) return std::nullopt;
  SPACE_TRY(SnapshotId id, parse_snapshot_id(*from));
  return id;
}

Result<CreateRequest> parse_create(const JsonObject& body) {
  CreateRequest request;
  SPACE_TRY(request.id, require_text(body, "id"));
  SPACE_TRY(request.generation, require_int(body, "generation", 0, rpc_integer_max));
  SPACE_TRY(request.team, require_text(body, "team"));
  SPACE_TRY(request.from, parse_from(body));
  if (request.from) {
    SPACE_CHECK(parse_named_kind(body, request));
  } else {
    SPACE_TRY(const VmKind kind, parse_kind(body));
    request.template_digest = kind.template_digest;
    request.shape = kind.shape;
  }
  SPACE_TRY(const JsonObject* policy, object_member(body, "policy"));
  if (policy != nullptr) SPACE_CHECK(change_policy(*policy, request.policy));
  if (const auto schedule = body.find("schedule"); schedule != body.end()) {
    SPACE_TRY(request.schedule, schedule_or_off(schedule->value()));
  }
  SPACE_TRY(const auto recovery, text_member(body, "recovery"));
  if (recovery) {
    SPACE_TRY(request.recovery, parse_recovery(*recovery));
  }
  SPACE_TRY(request.egress, parse_egress(body));
  SPACE_TRY(request.guest_init, parse_guest_init(body));
  return request;
}

// A call's failure as HTTP: as between any two parts, except that an unavailable node is 503, not a gateway's
// 502.
CallResponse to_response(const Error& error) {
  const int status = error.code == Code::unavailable ? 503 : http_status_of(error.code);
  return {status, to_text(JsonObject{{"code", to_string(error.code)}, {"message", error.message}})};
}

Result<void> check_running(const Sandbox& sandbox) {
  if (serves(sandbox.record().state)) return {};
  return fail(Code::unavailable, "sandbox {} is not running: {}", sandbox.record().id, sandbox.reason());
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
  static constexpr auto methods = std::to_array<std::pair<std::string_view, Method>>({
      {"/node/hello", &NodeRpc::hello},
      {"/node/sandbox/create", &NodeRpc::create},
      {"/node/sandbox/delete", &NodeRpc::remove},
      {"/node/sandbox/pause", &NodeRpc::pause},
      {"/node/sandbox/resume", &NodeRpc::resume},
      {"/node/sandbox/stop", &NodeRpc::stop},
      {"/node/sandbox/snapshot", &NodeRpc::snapshot},
      {"/node/sandbox/snapshots", &NodeRpc::snapshots},
      {"/node/sandbox/snapshot/remove", &NodeRpc::remove_snapshot},
      {"/node/sandbox/snapshot/set", &NodeRpc::set_snapshot},
      {"/node/snapshot/withdraw", &NodeRpc::withdraw_snapshot},
      {"/node/snapshot/published", &NodeRpc::published_snapshots},
      {"/node/sandbox/rollback", &NodeRpc::rollback},
      {"/node/sandbox/history", &NodeRpc::history},
      {"/node/sandbox/diff", &NodeRpc::diff},
      {"/node/sandbox/policy", &NodeRpc::policy},
      {"/node/sandbox/schedule", &NodeRpc::schedule},
      {"/node/sandbox/recovery", &NodeRpc::recovery},
      {"/node/sandbox/recover", &NodeRpc::recover},
      {"/node/sandbox/egress", &NodeRpc::set_egress},
      {"/node/sandbox/egress/test", &NodeRpc::test_egress},
      {"/node/sandbox/egress/log", &NodeRpc::egress_log},
      {"/node/sandbox/egress/stats", &NodeRpc::egress_stats},
      {"/node/pool/take", &NodeRpc::take_from_pool},
      {"/node/pool/list", &NodeRpc::list_pools},
      {"/node/pool/set", &NodeRpc::set_pool},
      {"/node/sandbox/get", &NodeRpc::get},
      {"/node/sandbox/list", &NodeRpc::list},
      {"/node/sandbox/stats", &NodeRpc::stats},
      {"/node/sandbox/activity", &NodeRpc::activity},
      {"/node/sandbox/isolation", &NodeRpc::isolation},
      {"/node/sandbox/logs", &NodeRpc::logs},
      {"/node/stats", &NodeRpc::all_stats},
      {"/node/events", &NodeRpc::events},
      {"/node/template/list", &NodeRpc::list_templates},
      {"/node/template/import", &NodeRpc::import_template},
      {"/node/template/remove", &NodeRpc::remove_template},
  });
  for (const auto& [name, method] : methods)
    if (name == path) co_return co_await (this->*method)(std::move(body));
  co_return fail(Code::not_found, "no such call");
}

NodeRpc::Answer NodeRpc::hello(JsonObject) {
  const PoolInfo pool = (co_await parts_.noded.pool_info(Deadline::after(verb_limit))).value_or(PoolInfo{});
  co_return JsonObject{{"node_id", parts_.node_id},
                       {"version", parts_.version},
                       {"accelerator", to_string(parts_.accelerator.known())},
                       {"accelerator_decided", parts_.accelerator.decided()},
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

NodeRpc::Answer NodeRpc::pause(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_CHECK(co_await sandbox->pause(Deadline::after(rest_limit)));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::resume(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(GuestInit init, parse_guest_init(body));
  SPACE_CO_TRY(const auto boot, bool_member(body, "boot"));
  SPACE_CO_CHECK(
      co_await sandbox->resume(std::move(init), boot.value_or(false), Deadline::after(checkpoint_limit)));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::stop(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_CHECK(co_await sandbox->stop(Deadline::after(rest_limit)));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::policy(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  PausePolicy policy = sandbox->record().policy;
  SPACE_CO_CHECK(change_policy(body, policy));
  SPACE_CO_CHECK(sandbox->set_policy(policy));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::take_from_pool(JsonObject body) {
  SPACE_CO_TRY(const auto from, parse_from(body));
  SPACE_CO_TRY(const VmKind kind, from ? parts_.manager.kind_of_published(*from) : parse_kind(body));
  auto id = parts_.manager.pool().take(kind);
  if (!id) co_return fail(Code::not_found, "no VM of this kind is parked");
  co_return JsonObject{{"id", *std::move(id)}};
}

NodeRpc::Answer NodeRpc::list_pools(JsonObject) {
  co_return JsonObject{{"pools", parts_.manager.pool().list()}};
}

NodeRpc::Answer NodeRpc::set_pool(JsonObject body) {
  SPACE_CO_TRY(const std::string digest, require_text(body, "template"));
  std::optional<std::int64_t> target;
  if (const auto found = body.find("target"); found != body.end() && !found->value().is_null()) {
    SPACE_CO_TRY(target, int_member(body, "target", 0, rpc_integer_max));
  }
  SPACE_CO_CHECK(parts_.manager.pool().set_target(digest, target));
  co_return JsonObject();
}

NodeRpc::Answer NodeRpc::get(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::list(JsonObject) {
  JsonArray sandboxes;
  for (const auto& sandbox : parts_.manager.list()) sandboxes.push_back(to_json(*sandbox));
  co_return JsonObject{{"sandboxes", std::move(sandboxes)}};
}

NodeRpc::Answer NodeRpc::stats(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_CHECK(check_running(*sandbox));
  co_await sandbox->meter().refresh(Deadline::after(stats_limit));
  co_return sandbox->meter().stats();
}

// All are asked at once and waited for together: one silent guest costs the others nothing.
NodeRpc::Answer NodeRpc::all_stats(JsonObject body) {
  SPACE_CO_TRY(const JsonArray* ids, array_member(body, "ids"));
  if (ids == nullptr || ids->size() > stats_ids_max)
    co_return fail(Code::invalid_argument, "'ids' must hold at most {} ids", stats_ids_max);
  std::vector<std::shared_ptr<Sandbox>> sandboxes;
  for (const Json& id : *ids)
    if (const auto* text = id.if_string())
      if (auto sandbox = parts_.manager.find(std::string(*text)); sandbox && serves(sandbox->record().state))
        sandboxes.push_back(std::move(sandbox));
  const Deadline deadline = Deadline::after(all_stats_limit);
  for (const auto& sandbox : sandboxes) sandbox->meter().look();
  JsonArray answers;
  for (const auto& sandbox : sandboxes) {
    co_await sandbox->meter().refresh(deadline);
    JsonObject entry = sandbox->meter().stats();
    entry["id"] = sandbox->record().id;
    answers.push_back(std::move(entry));
  }
  co_return JsonObject{{"sandboxes", std::move(answers)}};
}

NodeRpc::Answer NodeRpc::activity(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const auto call, bool_member(body, "call"));
  if (call.value_or(false)) sandbox->touch();
  co_return sandbox->meter().activity();
}

NodeRpc::Answer NodeRpc::isolation(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_CHECK(check_running(*sandbox));
  const SandboxRecord& record = sandbox->record();
  const auto vmm = sandbox->vmm();
  const auto layers = co_await parts_.noded.vmm_isolation(record.id, Deadline::after(verb_limit));
  // One that was just launched still opens its libraries, and one that ends has let go of its walls.
  SPACE_CO_CHECK(check_running(*sandbox));
  if (sandbox->vmm() != vmm)
    co_return fail(Code::unavailable, "the VMM of {} changed while it was looked at", record.id);
  SPACE_CO_CHECK(layers);
  co_return JsonObject{{"accelerator", to_string(record.accelerator)}, {"layers", to_json(*layers)}};
}

NodeRpc::Answer NodeRpc::logs(JsonObject body) {
  SPACE_CO_TRY(const std::string id, require_text(body, "id"));
  SPACE_CO_TRY(LogQuery query, parse_log_query(body));
  SPACE_CO_TRY(const auto wait_ms, int_member(body, "wait_ms", 0, wait_ms_max));
  const auto log = parts_.manager.log(id);
  if (!log) co_return fail(Code::not_found, "there is no log of this sandbox here any more");
  const Deadline deadline = Deadline::after(Millis(wait_ms.value_or(0)));
  LogPage page;
  while (true) {
    if (const auto sandbox = parts_.manager.find(id)) co_await sandbox->read_console();
    page = log->select(query);
    if (!page.entries.empty() || query.backward || deadline.passed()) break;
    query.after = page.next;
    co_await log->wait(deadline.at_most(log_poll));
  }
  JsonArray entries;
  for (const LogEntry& entry : page.entries) entries.push_back(to_json(entry));
  co_return JsonObject{{"entries", std::move(entries)}, {"next", page.next}};
}

NodeRpc::Answer NodeRpc::events(JsonObject body) {
  SPACE_CO_TRY(const std::int64_t after, require_int(body, "after", 0, rpc_integer_max));
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
  SPACE_CO_TRY(JsonObject manifest, co_await parts_.templates.import(digest, Deadline::after(import_limit)));
  // Without a checkpoint its sandboxes boot, as before there were any.
  const MachineAccelerator accelerator = co_await parts_.accelerator.get();
  const auto prepared = co_await parts_.manager.prepare(std::move(digest), accelerator);
  manifest["checkpoint"] = prepared.has_value();
  if (!prepared) manifest["checkpoint_error"] = prepared.error().message;
  co_return manifest;
}

NodeRpc::Answer NodeRpc::remove_template(JsonObject body) {
  SPACE_CO_TRY(std::string digest, require_text(body, "digest"));
  SPACE_CO_CHECK(co_await parts_.templates.remove(digest, Deadline::after(verb_limit)));
  co_await parts_.manager.forget_template(std::move(digest));
  co_return JsonObject();
}

}  // namespace space
