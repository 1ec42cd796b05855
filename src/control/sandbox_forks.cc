// SandboxService: forks. One snapshot, then as many creates from it as there are children; each is an
// ordinary create, so that a crash in the middle leaves rows that settle as those of creates do.
#include "control/sandbox_forks.h"

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "control/live_sandbox.h"
#include "control/sandbox_json.h"

namespace space::control {
namespace {

constexpr Millis snapshot_list_patience{10'000};
// Children that wait at the node at a time: few, so that the creates of others are not behind a hundred.
constexpr std::size_t children_at_once = 8;

ApiError too_late() {
  return {503, "Sandbox could not be created: the fork took too long. Fork again for those that are missing",
          "sandbox_placement_timeout", ""};
}

// Whether children can begin as it.
Result<void> check_forkable(const std::string& id, const JsonObject& snapshot) {
  SPACE_TRY(const auto kind, text_member(snapshot, "kind"));
  SPACE_TRY(const auto quiesced, bool_member(snapshot, "quiesced"));
  SPACE_TRY(const auto number, require_int(snapshot, "number", 1, INT64_MAX));
  if (kind == "full" && !quiesced.value_or(false))
    return fail(
        Code::conflict,
        "Snapshot {} of sandbox {} was taken while its programs ran, so that copies of it would share "
        "randomness. Fork another one",
        number, id);
  return {};
}

Result<SnapshotId> find_snapshot(const std::string& id, const JsonObject& answer, std::int64_t number) {
  SPACE_TRY(const JsonArray* snapshots, array_member(answer, "snapshots"));
  if (snapshots == nullptr) return fail(Code::internal, "the node's answer has no snapshots");
  for (const Json& value : *snapshots) {
    if (!value.is_object()) return fail(Code::internal, "the node's snapshots hold something else");
    SPACE_TRY(const auto found, require_int(value.get_object(), "number", 1, INT64_MAX));
    if (found != number) continue;
    SPACE_CHECK(check_forkable(id, value.get_object()));
    return SnapshotId{id, static_cast<std::uint64_t>(number)};
  }
  return fail(Code::not_found, "Sandbox {} has no snapshot {}. GET /v1/sandboxes/{}/snapshots lists them", id,
              number, id);
}

}  // namespace

Result<ForkRequest> parse_fork_request(std::string_view text, ForkRoute route, std::int64_t timeout_max_s) {
  SPACE_TRY(const ConnectRequest life, parse_connect_request(text, ApiVersion::v2, timeout_max_s));
  JsonObject body;
  if (!text.empty()) {
    SPACE_TRY(body, parse_json_object(text, "the request body"));
  }
  ForkRequest request;
  SPACE_TRY(const auto count, int_member(body, "count", INT64_MIN, INT64_MAX));
  request.count = count.value_or(1);
  if (request.count < 1 || request.count > forks_max)
    return fail(Code::invalid_argument,
                "'count' must be between 1 and {}. Fork more than once for more sandboxes", forks_max);
  request.timeout_s = life.timeout_s;
  request.running_only = route == ForkRoute::e2b;
  if (route == ForkRoute::v1) {
    SPACE_TRY(request.snapshot, int_member(body, "snapshot", 1, INT64_MAX));
  }
  return request;
}

JsonArray forks_json(const ForkResults& results, const std::string& domain) {
  JsonArray array;
  for (const auto& result : results)
    if (result)
      array.push_back(JsonObject{{"sandbox", sandbox_json(*result, domain)}});
    else
      array.push_back(JsonObject{
          {"error", JsonObject{{"code", result.error().status}, {"message", result.error().message}}}});
  return array;
}

// One fork under way. Kept by its workers, so that it goes on when who asked for it leaves.
struct SandboxService::ForkRun {
  ForkRun(const Executor& executor, store::Sandbox copy, Source from, ForkRequest asked, Deadline end)
      : parent(std::move(copy)),
        source(std::move(from)),
        request(asked),
        deadline(end),
        results(static_cast<std::size_t>(asked.count),
                ApiResult<store::Sandbox>(std::unexpected(too_late()))),
        done(executor) {}

  store::Sandbox parent;
  Source source;
  ForkRequest request;
  Deadline deadline;
  ForkResults results;
  std::size_t next = 0;
  std::size_t workers = 0;
  Event done;
};

store::Sandbox SandboxService::child_of(const store::Sandbox& parent, std::int64_t timeout_s) const {
  store::Sandbox row;
  row.id = new_sandbox_id();
  row.team = parent.team;
  row.options = parent.options;
  row.lifecycle = parent.lifecycle;
  row.policy = parent.policy;
  row.schedule = parent.schedule;
  row.recovery = parent.recovery;
  row.egress = parent.egress;
  if (!parent.access_token.empty()) row.access_token = new_token();
  if (!parent.traffic_token.empty()) row.traffic_token = new_token();
  row.timeout_s = timeout_s;
  return row;
}

Task<Result<SnapshotId>> SandboxService::snapshot_to_fork(LivePtr live, std::optional<std::int64_t> number) {
  const std::string id = live->row.id;
  if (number) {
    SPACE_CO_TRY(const JsonObject list, co_await ask_node("sandbox/snapshots", {{"id", id}},
                                                          Deadline::after(snapshot_list_patience)));
    co_return find_snapshot(id, list, *number);
  }
  co_return co_await take_snapshot(nodes_, id, "fork");
}

Task<void> SandboxService::make_children(std::shared_ptr<ForkRun> run) {
  while (run->next < run->results.size() && !run->deadline.passed()) {
    const std::size_t mine = run->next++;
    run->results[mine] = co_await start_new(child_of(run->parent, run->request.timeout_s), run->source, {},
                                            run->deadline.left());
  }
  if (--run->workers == 0) run->done.notify_all();
}

Task<Result<ForkResults>> SandboxService::fork(store::Team team, std::string id, ForkRequest request) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team.id, id));
  SPACE_CO_CHECK(co_await settle(live));
  if (request.running_only && rests(live->row.state))
    co_return fail(
        Code::conflict,
        "Sandbox {} is paused. Connect to it first, or use POST /v1/sandboxes/{}/fork, which forks it as "
        "it is",
        id, id);
  SPACE_CO_TRY(const SnapshotId snapshot, co_await snapshot_to_fork(live, request.snapshot));
  const store::Sandbox& parent = live->row;
  store::Template shown{parent.template_id,  parent.template_name,   parent.template_digest, parent.shape,
                        parent.default_user, parent.default_workdir, parent.started_at};
  Source source{std::move(shown), snapshot, 0, fmt::format("Snapshot {} of sandbox {}", snapshot.number, id)};
  const auto run = std::make_shared<ForkRun>(executor_, parent, std::move(source), request,
                                             Deadline::after(limits_.fork_patience));
  run->workers = std::min(children_at_once, run->results.size());
  for (std::size_t i = run->workers; i > 0; --i) spawn(executor_, "fork", make_children(run));
  while (run->workers > 0) co_await run->done.wait();
  const auto failed = std::ranges::count_if(run->results, [](const auto& result) { return !result; });
  log::info("sandbox forked", {{"sandbox", id},
                               {"snapshot", snapshot.number},
                               {"children", run->results.size()},
                               {"failed", failed}});
  co_return std::move(run->results);
}

Task<Result<store::SnapshotTemplate>> SandboxService::publish(std::string team, std::string id,
                                                              std::optional<SnapshotName> name) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_CHECK(co_await settle(live));
  co_return co_await snapshot_templates_.publish(live->row, std::move(name));
}

}  // namespace space::control
