// SandboxService: what new sandboxes begin as, and their start.
#include "base/ids.h"
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

Json as_json(const SnapshotId& snapshot) {
  return JsonObject{{"sandbox", snapshot.sandbox}, {"number", snapshot.number}};
}

JsonObject node_request(const store::Sandbox& row, const CreateRequest::Env& env) {
  JsonObject variables;
  for (const auto& [name, value] : env) variables[name] = value.reveal();
  JsonObject policy;
  if (row.policy.idle_pause_s) policy["idle_pause_s"] = *row.policy.idle_pause_s;
  if (row.policy.hot_keep_s) policy["hot_keep_s"] = *row.policy.hot_keep_s;
  JsonObject request{{"id", row.id},
                     {"team", row.team},
                     {"generation", row.generation},
                     {"template", row.template_digest},
                     {"vcpus", row.shape.vcpus},
                     {"memory_mib", row.shape.memory_mib},
                     {"disk_mib", row.shape.disk_mib},
                     {"access_token", row.access_token},
                     {"env", std::move(variables)},
                     {"default_user", row.default_user},
                     {"default_workdir", row.default_workdir},
                     {"policy", std::move(policy)},
                     {"recovery", to_string(row.recovery)},
                     {"egress", parse_json(row.egress.policy).value_or(Json())},
                     {"egress_generation", row.egress.generation}};
  if (row.schedule) request["schedule"] = to_json(*row.schedule);
  if (row.origin) request["from"] = as_json(*row.origin);
  return request;
}

ApiError no_template(const std::string& name) {
  return {
      404,
      fmt::format("Template '{}' was not found. `space template ls` shows those that exist, GET /snapshots "
                  "the snapshots of your team",
                  name),
      "", ""};
}

// Replaced or deleted between its look-up and its use.
ApiError source_went(const Source& source) {
  return {409, fmt::format("{} was replaced or deleted just now. Create again", source.title), "", ""};
}

ApiError create_error(const Source& source, const Error& error) {
  if (source.snapshot && error.code == Code::not_found)
    return {
        404,
        fmt::format("{} cannot be used: its node does not have it any more. Make a new one", source.title),
        "sandbox_create_failed", ""};
  ApiError answer{500, fmt::format("Sandbox could not be created: {}", error.message),
                  "sandbox_create_failed", ""};
  if (error.code == Code::exhausted) answer = {503, answer.message, "sandbox_capacity_unavailable", ""};
  if (error.code == Code::unavailable || error.code == Code::deadline) answer.status = 503;
  if (error.code == Code::conflict) answer.status = 409;
  if (error.code == Code::permission_denied)
    answer = {503, answer.message, "sandbox_tcg_multitenant_refused", ""};
  return answer;
}

}  // namespace

store::Sandbox SandboxService::new_row(const store::Team& team, const CreateRequest& request) const {
  store::Sandbox row;
  row.team = team.id;
  row.options = request.options;
  row.lifecycle = request.lifecycle;
  row.policy = request.policy;
  row.schedule = request.schedule;
  row.recovery = request.recovery;
  if (request.secure) row.access_token = new_token();
  if (!request.options.allow_public_traffic) row.traffic_token = new_token();
  row.timeout_s = request.timeout_s;
  return row;
}

Task<Result<std::optional<Source>>> SandboxService::find_source(store::Team team, TemplateKey key,
                                                                bool snapshot) {
  if (snapshot) co_return co_await snapshot_templates_.find(team, key);
  if (!key.tag.empty() && key.tag != default_tag) co_return std::nullopt;
  SPACE_CO_TRY(const auto found, co_await repository_.find_template(key.name));
  if (!found) co_return std::nullopt;
  co_return Source{*found, std::nullopt, 0, fmt::format("Template '{}'", key.name)};
}

// A template's name or id, or a snapshot's. Where both have the name the template is meant, unless the team
// stands before it.
Task<ApiResult<Source>> SandboxService::resolve(store::Team team, std::string name) {
  const TemplateKey key = parse_template_key(name, team.name);
  for (const bool snapshot : {key.of_own_team, !key.of_own_team}) {
    auto found = co_await find_source(team, key, snapshot);
    if (!found) co_return std::unexpected(to_api_error(found.error()));
    if (*found) co_return **std::move(found);
  }
  co_return std::unexpected(no_template(name));
}

// A VM that the node keeps parked brings its id along, and is kept for us long enough to write it down.
// Without one, or without an answer at once, the sandbox is made from the start under an id of ours.
Task<std::string> SandboxService::choose_id(Source source) {
  const auto node = nodes_.current();
  if (!node) co_return new_sandbox_id();
  JsonObject wanted{{"template", source.shown.digest},
                    {"vcpus", source.shown.shape.vcpus},
                    {"memory_mib", source.shown.shape.memory_mib},
                    {"disk_mib", source.shown.shape.disk_mib}};
  if (source.snapshot) wanted["from"] = as_json(*source.snapshot);
  const auto parked =
      co_await node->call("pool/take", std::move(wanted), Deadline::after(limits_.pool_patience));
  const auto id = parked ? require_text(*parked, "id") : std::unexpected(parked.error());
  if (id && is_sandbox_id(*id) && !live_.contains(*id)) co_return *id;
  if (id || id.error().code != Code::not_found)
    log::warn("no parked VM", {{"answer", id ? *id : id.error().message}});
  co_return new_sandbox_id();
}

// What is asked for, else what the sandbox has whose snapshot it begins as, else the operator's default.
Task<Result<store::Egress>> SandboxService::choose_egress(std::string team, EgressWish wish, Source source) {
  if (!wish.policy && source.snapshot) {
    SPACE_CO_TRY(const auto origin, co_await repository_.find_sandbox(source.snapshot->sandbox));
    if (origin && origin->team == team) co_return origin->egress;
  }
  SPACE_CO_TRY(std::string policy, policy_text(egress_of(wish, limits_.egress_default)));
  co_return store::Egress{std::move(policy), 1};
}

Task<ApiResult<store::Sandbox>> SandboxService::create(store::Team team, CreateRequest request) {
  const auto source = co_await resolve(team, request.template_name);
  if (!source) co_return std::unexpected(source.error());
  if (!co_await nodes_.wait(Deadline::after(limits_.node_patience)))
    co_return std::unexpected(
        ApiError{503, "No node is connected. Is space-sandboxd running? `space doctor` tells",
                 "sandbox_no_compatible_node", ""});
  store::Sandbox row = new_row(team, request);
  auto egress = co_await choose_egress(team.id, request.egress, *source);
  if (!egress) co_return std::unexpected(to_api_error(egress.error()));
  row.egress = *std::move(egress);
  row.id = co_await choose_id(*source);
  co_return co_await start_new(std::move(row), *source, std::move(request.env), limits_.create_patience);
}

// Fills in what the row has of its source, writes it down and starts it.
Task<ApiResult<store::Sandbox>> SandboxService::start_new(store::Sandbox row, Source source,
                                                          CreateRequest::Env env, Millis patience) {
  row.template_id = source.shown.id;
  row.template_name = source.shown.name;
  row.template_digest = source.shown.digest;
  row.shape = source.shown.shape;
  row.default_user = source.shown.default_user;
  row.default_workdir = source.shown.default_workdir;
  row.origin = source.snapshot;
  row.started_at = clock_.wall();
  // While it starts: long enough to end a create that nobody finishes.
  row.end_at = end_after(row.started_at + patience, row.timeout_s);
  const auto live = std::make_shared<Live>(executor_, std::move(row));
  live->starting_here = true;
  const auto added = source.build > 0 ? co_await repository_.add_sandbox_of(live->row, source.build)
                                      : co_await repository_.add_sandbox(live->row);
  if (!added && source.build > 0 && added.error().code == Code::not_found)
    co_return std::unexpected(source_went(source));
  if (!added) co_return std::unexpected(to_api_error(added.error()));
  live_.emplace(live->row.id, live);
  arm(live->row);

  const auto started =
      co_await ask_again("sandbox/create", node_request(live->row, env), Deadline::after(patience));
  live->starting_here = false;
  if (!started) co_return std::unexpected(co_await fail_create(live, source, started.error()));
  const auto kept = co_await keep_running(live);
  if (!kept) co_return std::unexpected(co_await fail_create(live, source, kept.error()));
  co_return *kept;
}

// For calls that are the same call when repeated.
Task<Result<JsonObject>> SandboxService::ask_again(std::string call, JsonObject request, Deadline deadline) {
  SPACE_CO_TRY(const std::string id, require_text(request, "id"));
  Error last{Code::unavailable, "the node is not connected"};
  while (!deadline.passed()) {
    const auto live = live_.find(id);
    if (live == live_.end() || is_deletion(live->second->row.wanted))
      co_return fail(Code::conflict, "the sandbox was deleted meanwhile");
    const auto node = co_await nodes_.wait(deadline.at_most(limits_.node_patience));
    if (!node) co_return std::unexpected(last);
    auto answer = co_await node->call(call, request, deadline);
    if (answer || !node->closed()) co_return answer;
    last = answer.error();
  }
  co_return std::unexpected(last);
}

// The clock of its timeout starts when it is up, not when it was asked for.
Task<Result<store::Sandbox>> SandboxService::keep_running(LivePtr live) {
  SPACE_CO_CHECK(co_await record(live, State::running, live->row.timeout_s));
  co_return live->row;
}

Task<ApiError> SandboxService::fail_create(LivePtr live, Source source, Error error) {
  log::warn("sandbox not created", {{"sandbox", live->row.id}, log::Field(error)});
  const std::string id = live->row.id;
  if (!is_deletion(live->row.wanted)) {
    co_await bury(live, State::failed, "it could not be started: " + error.message);
    spawn(executor_, "remove from node", remove_orphan(id));
  }
  co_return create_error(source, error);
}

}  // namespace space::control
