#include "control/api.h"

namespace space::control {
namespace {

constexpr Millis hello_patience{2'000};

}  // namespace

Reply to_reply(const ApiError& error) {
  Reply reply{.status = error.status, .body = to_body(error), .fields = {}};
  if (!error.allow.empty()) reply.fields.add("Allow", error.allow);
  return reply;
}

Task<Result<store::Team>> Api::authenticate(Action action, std::optional<std::string> api_key) {
  if (action == Action::health) co_return store::Team();
  co_return co_await auth_.team_of(std::move(api_key));
}

Task<Reply> Api::handle(ApiRequest request) {
  switch (request.route.action) {
    case Action::health:
      co_return Reply{.status = 200, .body = R"({"status":"ok"})", .fields = {}};
    case Action::sandbox_create_v1:
      co_return co_await create(std::move(request), ApiVersion::v1);
    case Action::sandbox_create_v2:
      co_return co_await create(std::move(request), ApiVersion::v2);
    case Action::sandbox_connect_v1:
      co_return co_await connect(std::move(request), ApiVersion::v1);
    case Action::sandbox_connect_v2:
      co_return co_await connect(std::move(request), ApiVersion::v2);
    case Action::sandbox_list:
      co_return co_await list(std::move(request));
    case Action::sandbox_get:
      co_return co_await get(std::move(request));
    case Action::sandbox_delete:
      co_return co_await remove(std::move(request));
    case Action::sandbox_set_timeout:
      co_return co_await set_timeout(std::move(request));
    case Action::sandbox_resume:
      co_return co_await resume(std::move(request));
    case Action::sandbox_pause:
      co_return co_await pause(std::move(request));
    case Action::sandbox_stop:
      co_return co_await stop(std::move(request));
    case Action::sandbox_start:
      co_return co_await start_again(std::move(request));
    case Action::sandbox_checkpoint:
      co_return co_await checkpoint(std::move(request));
    case Action::sandbox_snapshots:
      co_return co_await snapshots(std::move(request));
    case Action::snapshot_remove:
      co_return co_await remove_snapshot(std::move(request));
    case Action::snapshot_change:
      co_return co_await change_snapshot(std::move(request));
    case Action::sandbox_rollback:
      co_return co_await rollback(std::move(request));
    case Action::schedule_get:
      co_return co_await get_schedule(std::move(request));
    case Action::schedule_set:
      co_return co_await set_schedule(std::move(request));
    case Action::recovery_get:
      co_return co_await get_recovery(std::move(request));
    case Action::recovery_set:
      co_return co_await set_recovery(std::move(request));
    case Action::recovery_start:
      co_return co_await recover(std::move(request));
    case Action::sandbox_history:
      co_return co_await history(std::move(request));
    case Action::sandbox_diff:
      co_return co_await diff(std::move(request));
    case Action::pause_policy_get:
      co_return co_await get_pause_policy(std::move(request));
    case Action::pause_policy_set:
      co_return co_await set_pause_policy(std::move(request));
    case Action::pool_list:
      co_return co_await list_pools();
    case Action::pool_set:
      co_return co_await set_pool(std::move(request));
    case Action::sandbox_logs_v1:
      co_return co_await logs(std::move(request), LogRoute::v1);
    case Action::sandbox_logs_v2:
      co_return co_await logs(std::move(request), LogRoute::v2);
    case Action::sandbox_stats:
      co_return co_await sandbox_stats(std::move(request));
    case Action::sandbox_isolation:
      co_return co_await isolation(std::move(request));
    case Action::sandbox_inspect:
      co_return co_await inspect(std::move(request));
    case Action::stats_list:
      co_return co_await all_stats(std::move(request));
    case Action::template_list:
      co_return co_await list_templates();
    case Action::template_add:
      co_return co_await add_template(std::move(request));
    case Action::template_remove:
      co_return co_await remove_template(std::move(request));
    case Action::sandbox_fork:
      co_return co_await fork(std::move(request), ForkRoute::e2b);
    case Action::sandbox_fork_v1:
      co_return co_await fork(std::move(request), ForkRoute::v1);
    case Action::snapshot_publish:
      co_return co_await publish_snapshot(std::move(request));
    case Action::published_list:
      co_return co_await list_published(std::move(request));
    case Action::published_remove:
      co_return co_await remove_published(std::move(request));
    case Action::node_info:
      co_return co_await node_info();
    case Action::sandbox_tunnel:  // the proxy's: their answers are streams of bytes
    case Action::signed_file:
    case Action::not_available:
      break;
  }
  co_return to_reply({501, "This version of SPACE does not offer this operation yet", "not_implemented", ""});
}

// Asked anew: how much room it has and which accelerator it settled on changes after its first word.
Task<Reply> Api::node_info() {
  const auto node = nodes_.current();
  JsonObject body = node ? node->hello() : JsonObject();
  if (node)
    if (auto now =
            co_await node->call("hello", {{"control", "space-control"}}, Deadline::after(hello_patience)))
      body = *std::move(now);
  body["connected"] = node != nullptr;
  co_return Reply{.status = 200, .body = to_text(body), .fields = {}};
}

}  // namespace space::control
