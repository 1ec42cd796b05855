#include "control/sandbox_service.h"

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis timeout_check_max{30'000};  // the wall clock may jump

Error not_found(std::string_view id) {
  return {Code::not_found, fmt::format("Sandbox {} was not found", id)};
}

Error gone(const store::Sandbox& row) {
  if (row.reason.empty()) return not_found(row.id);
  return {Code::not_found, fmt::format("Sandbox {} was not found: {}", row.id, row.reason)};
}

JsonObject node_request(const store::Sandbox& row, const store::Template& source,
                        const CreateRequest& request) {
  JsonObject env;
  for (const auto& [name, value] : request.env) env[name] = value.reveal();
  JsonObject policy;
  if (row.policy.idle_pause_s) policy["idle_pause_s"] = *row.policy.idle_pause_s;
  if (row.policy.hot_keep_s) policy["hot_keep_s"] = *row.policy.hot_keep_s;
  return {{"id", row.id},
          {"team", row.team},
          {"generation", row.generation},
          {"template", row.template_digest},
          {"vcpus", row.shape.vcpus},
          {"memory_mib", row.shape.memory_mib},
          {"disk_mib", row.shape.disk_mib},
          {"access_token", row.access_token},
          {"env", std::move(env)},
          {"default_user", source.default_user},
          {"default_workdir", source.default_workdir},
          {"policy", std::move(policy)}};
}

}  // namespace

SandboxService::SandboxService(const Executor& executor, store::Repository& repository, NodeLink& nodes,
                               const Clock& clock, ServiceLimits limits)
    : executor_(executor),
      repository_(repository),
      nodes_(nodes),
      clock_(clock),
      limits_(limits),
      timeouts_changed_(executor) {}

Task<Result<void>> SandboxService::start() {
  SPACE_CO_TRY(auto rows, co_await repository_.unfinished_sandboxes());
  for (store::Sandbox& row : rows) {
    auto live = std::make_shared<Live>(executor_, std::move(row));
    live_.emplace(live->row.id, live);
    const bool ends = serves(live->row.state) || half_built(live->row.state);
    if (ends && !is_deletion(live->row.wanted)) arm(live->row);
  }
  log::info("sandboxes taken over", {{"count", live_.size()}});
  co_return Result<void>();
}

Task<void> SandboxService::run_timeouts() {
  while (true) {
    expire_due();
    Millis pause = timeout_check_max;
    if (const auto next = timeouts_.next()) pause = std::clamp(*next - clock_.wall(), Millis(1), pause);
    co_await timeouts_changed_.wait(Deadline::after(pause));
  }
}

void SandboxService::expire_due() {
  for (const std::string& id : timeouts_.take_due(clock_.wall())) {
    const auto found = live_.find(id);
    if (found == live_.end()) continue;
    if (found->second->row.lifecycle.pause_on_timeout && !half_built(found->second->row.state))
      rest(found->second);
    else
      spawn(executor_, "expire", end(id, fmt::format("its timeout passed at {}", to_rfc3339(clock_.wall()))));
  }
}

void SandboxService::arm(const store::Sandbox& row) {
  timeouts_.set(row.id, row.end_at);
  timeouts_changed_.notify_all();
}

void SandboxService::arm_not_before(const LivePtr& live, Millis pause) {
  timeouts_.set(live->row.id, std::max(live->row.end_at, clock_.wall() + pause));
  timeouts_changed_.notify_all();
}

// Create ----------------------------------------------------------------------------------------------------

store::Sandbox SandboxService::new_row(const store::Team& team, const store::Template& source,
                                       const CreateRequest& request) const {
  store::Sandbox row;
  row.team = team.id;
  row.template_id = source.id;
  row.template_name = source.name;
  row.template_digest = source.digest;
  row.shape = source.shape;
  row.options = request.options;
  row.lifecycle = request.lifecycle;
  row.policy = request.policy;
  row.default_user = source.default_user;
  row.default_workdir = source.default_workdir;
  if (request.secure) row.access_token = new_token();
  if (!request.options.allow_public_traffic) row.traffic_token = new_token();
  row.timeout_s = request.timeout_s;
  row.started_at = clock_.wall();
  // While it starts: long enough to end a create that nobody finishes.
  row.end_at = end_after(row.started_at + limits_.create_patience, request.timeout_s);
  return row;
}

// "name", "name:default", "team/name" or an id.
Task<ApiResult<store::Template>> SandboxService::resolve_template(store::Team team, std::string name) {
  std::string_view key = name;
  if (key.starts_with(team.name + "/")) key.remove_prefix(team.name.size() + 1);
  if (key.ends_with(":default")) key.remove_suffix(std::string_view(":default").size());
  const auto found = co_await repository_.find_template(std::string(key));
  if (!found) co_return std::unexpected(to_api_error(found.error()));
  if (!*found)
    co_return std::unexpected(ApiError{
        404, fmt::format("Template '{}' was not found. `space template ls` shows those that exist", name), "",
        ""});
  co_return **found;
}

// A VM that the node keeps parked brings its id along, and is kept for us long enough to write it down.
// Without one, or without an answer at once, the sandbox is made from the start under an id of ours.
Task<std::string> SandboxService::choose_id(store::Template source) {
  const auto node = nodes_.current();
  if (!node) co_return new_sandbox_id();
  const auto parked = co_await node->call("pool/take",
                                          {{"template", source.digest},
                                           {"vcpus", source.shape.vcpus},
                                           {"memory_mib", source.shape.memory_mib},
                                           {"disk_mib", source.shape.disk_mib}},
                                          Deadline::after(limits_.pool_patience));
  const auto id = parked ? require_text(*parked, "id") : std::unexpected(parked.error());
  if (id && is_sandbox_id(*id) && !live_.contains(*id)) co_return *id;
  if (id || id.error().code != Code::not_found)
    log::warn("no parked VM", {{"answer", id ? *id : id.error().message}});
  co_return new_sandbox_id();
}

Task<ApiResult<store::Sandbox>> SandboxService::create(store::Team team, CreateRequest request) {
  const auto source = co_await resolve_template(team, request.template_name);
  if (!source) co_return std::unexpected(source.error());
  if (!co_await nodes_.wait(Deadline::after(limits_.node_patience)))
    co_return std::unexpected(
        ApiError{503, "No node is connected. Is space-sandboxd running? `space doctor` tells",
                 "sandbox_no_compatible_node", ""});
  const auto live = std::make_shared<Live>(executor_, new_row(team, *source, request));
  live->row.id = co_await choose_id(*source);
  live->starting_here = true;
  if (const auto added = co_await repository_.add_sandbox(live->row); !added)
    co_return std::unexpected(to_api_error(added.error()));
  live_.emplace(live->row.id, live);
  arm(live->row);

  const auto started = co_await ask_again("sandbox/create", node_request(live->row, *source, request),
                                          Deadline::after(limits_.create_patience));
  live->starting_here = false;
  if (!started) co_return std::unexpected(co_await fail_create(live, started.error()));
  const auto row = co_await keep_running(live);
  if (!row) co_return std::unexpected(co_await fail_create(live, row.error()));
  co_return *row;
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

Task<ApiError> SandboxService::fail_create(LivePtr live, Error error) {
  log::warn("sandbox not created", {{"sandbox", live->row.id}, log::Field(error)});
  const std::string id = live->row.id;
  if (!is_deletion(live->row.wanted)) {
    co_await bury(live, State::failed, "it could not be started: " + error.message);
    spawn(executor_, "remove from node", remove_orphan(id));
  }
  ApiError answer{500, fmt::format("Sandbox could not be created: {}", error.message),
                  "sandbox_create_failed", ""};
  if (error.code == Code::exhausted) answer = {503, answer.message, "sandbox_capacity_unavailable", ""};
  if (error.code == Code::unavailable || error.code == Code::deadline) answer.status = 503;
  if (error.code == Code::conflict) answer.status = 409;
  if (error.code == Code::permission_denied)
    answer = {503, answer.message, "sandbox_tcg_multitenant_refused", ""};
  co_return answer;
}

// Look up and change ----------------------------------------------------------------------------------------

SandboxService::LivePtr SandboxService::find_live(const std::string& team, const std::string& id) const {
  const auto found = live_.find(id);
  if (found == live_.end() || found->second->row.team != team || is_deletion(found->second->row.wanted))
    return nullptr;
  return found->second;
}

Task<Result<SandboxService::LivePtr>> SandboxService::running(std::string team, std::string id) {
  if (const auto live = find_live(team, id)) co_return live;
  SPACE_CO_TRY(const auto row, co_await repository_.find_sandbox(id));
  if (row && row->team == team) co_return std::unexpected(gone(*row));
  co_return std::unexpected(not_found(id));
}

Task<Result<store::Sandbox>> SandboxService::find(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  co_return live->row;
}

Task<Result<store::Sandbox>> SandboxService::move_end(LivePtr live, Wall end_at) {
  auto row = co_await repository_.set_end(live->row.id, end_at);
  if (!row && row.error().code == Code::conflict) co_return std::unexpected(not_found(live->row.id));
  if (!row) co_return std::unexpected(row.error());
  live->row = *row;
  arm(live->row);
  co_return *row;
}

Task<Result<store::Sandbox>> SandboxService::set_timeout(std::string team, std::string id,
                                                         std::int64_t timeout_s) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_CHECK(co_await settle(live));
  if (rests(live->row.state))
    co_return fail(Code::conflict, "Sandbox {} is paused and has no end. Connect to it first", id);
  note_call(id);
  const Wall latest = end_after(live->row.started_at, limits_.timeout_max_s);
  const Wall wanted = end_after(clock_.wall(), std::min(timeout_s, limits_.timeout_max_s));
  co_return co_await move_end(live, std::min(wanted, latest));
}

Task<Result<void>> SandboxService::remove(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  const auto row = co_await repository_.want_deleted(id, "it was killed by a request");
  if (!row && row.error().code == Code::conflict) co_return std::unexpected(not_found(id));
  if (!row) co_return std::unexpected(row.error());
  live->row = *row;
  timeouts_.remove(id);
  spawn(executor_, "delete sandbox", converge_deletion(live));
  const Deadline deadline = Deadline::after(limits_.delete_patience);
  while (!live->over && nodes_.current() && !deadline.passed()) co_await live->changed.wait(deadline);
  co_return Result<void>();
}

// The platform's own reasons to delete: no client waits for it.
Task<void> SandboxService::end(std::string id, std::string reason) {
  const auto found = live_.find(id);
  if (found == live_.end() || is_deletion(found->second->row.wanted)) co_return;
  const LivePtr live = found->second;
  const auto row = co_await repository_.want_deleted(id, reason);
  if (!row) {
    if (row.error().code == Code::conflict) co_return;
    log::error("sandbox not ended, retrying", {{"sandbox", id}, log::Field(row.error())});
    timeouts_.set(id, clock_.wall() + std::chrono::seconds(5));
    co_return;
  }
  live->row = *row;
  log::info("sandbox ends", {{"sandbox", id}, {"reason", reason}});
  co_await converge_deletion(live);
}

std::optional<DataPlaneTarget> SandboxService::data_plane_target(const std::string& id) const {
  const store::Sandbox* row = live_row(id);
  if (!row) return std::nullopt;
  const bool awake = serves(row->state) && !live_.at(id)->moving;
  return DataPlaneTarget{row->traffic_token, row->options.mask_request_host, awake};
}

const store::Sandbox* SandboxService::live_row(const std::string& id) const {
  const auto found = live_.find(id);
  return found == live_.end() || is_deletion(found->second->row.wanted) ? nullptr : &found->second->row;
}

const store::Sandbox* SandboxService::live_row_after(const std::string& id) const {
  for (auto it = live_.upper_bound(id); it != live_.end(); ++it)
    if (!is_deletion(it->second->row.wanted)) return &it->second->row;
  return nullptr;
}

}  // namespace space::control
