#include "control/api.h"

#include <array>

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

// Who serves which action. Nested, so that it may name private members.
struct Api::Handlers {
  struct Row {
    Action action;
    Task<Reply> (Api::*serve)(ApiRequest request);
  };
  static constexpr auto rows = std::to_array<Row>({
      {Action::health, &Api::health},
      {Action::sandbox_create_v1, &Api::create_as<ApiVersion::v1>},
      {Action::sandbox_create_v2, &Api::create_as<ApiVersion::v2>},
      {Action::sandbox_connect_v1, &Api::connect_as<ApiVersion::v1>},
      {Action::sandbox_connect_v2, &Api::connect_as<ApiVersion::v2>},
      {Action::sandbox_list, &Api::list},
      {Action::sandbox_get, &Api::get},
      {Action::sandbox_delete, &Api::remove},
      {Action::sandbox_set_timeout, &Api::set_timeout},
      {Action::sandbox_resume, &Api::resume},
      {Action::sandbox_pause, &Api::pause},
      {Action::sandbox_stop, &Api::stop},
      {Action::sandbox_start, &Api::start_again},
      {Action::sandbox_checkpoint, &Api::checkpoint},
      {Action::sandbox_snapshots, &Api::snapshots},
      {Action::snapshot_remove, &Api::remove_snapshot},
      {Action::snapshot_change, &Api::change_snapshot},
      {Action::sandbox_rollback, &Api::rollback},
      {Action::schedule_get, &Api::get_schedule},
      {Action::schedule_set, &Api::set_schedule},
      {Action::recovery_get, &Api::get_recovery},
      {Action::recovery_set, &Api::set_recovery},
      {Action::recovery_start, &Api::recover},
      {Action::sandbox_history, &Api::history},
      {Action::sandbox_diff, &Api::diff},
      {Action::pause_policy_get, &Api::get_pause_policy},
      {Action::pause_policy_set, &Api::set_pause_policy},
      {Action::sandbox_set_network, &Api::set_network},
      {Action::egress_get, &Api::get_egress},
      {Action::egress_set, &Api::set_egress},
      {Action::egress_edit, &Api::edit_egress},
      {Action::egress_test, &Api::test_egress},
      {Action::egress_log, &Api::egress_log},
      {Action::pool_list, &Api::list_pools},
      {Action::pool_set, &Api::set_pool},
      {Action::sandbox_logs_v1, &Api::logs_as<LogRoute::v1>},
      {Action::sandbox_logs_v2, &Api::logs_as<LogRoute::v2>},
      {Action::sandbox_stats, &Api::sandbox_stats},
      {Action::sandbox_isolation, &Api::isolation},
      {Action::sandbox_inspect, &Api::inspect},
      {Action::stats_list, &Api::all_stats},
      {Action::template_list, &Api::list_templates},
      {Action::template_add, &Api::add_template},
      {Action::template_remove, &Api::remove_template},
      {Action::sandbox_fork, &Api::fork_as<ForkRoute::e2b>},
      {Action::sandbox_fork_v1, &Api::fork_as<ForkRoute::v1>},
      {Action::snapshot_publish, &Api::publish_snapshot},
      {Action::published_list, &Api::list_published},
      {Action::published_remove, &Api::remove_published},
      {Action::node_info, &Api::node_info},
  });
  static constexpr const Row* find(Action action) {
    for (const Row& row : rows)
      if (row.action == action) return &row;
    return nullptr;
  }
  // The proxy's are not among them: their answers are streams of bytes.
  static constexpr bool has_all_others() {
    for (auto action = Action::health; action != Action::not_available; action = Action(int(action) + 1))
      if (!find(action) && action != Action::sandbox_tunnel && action != Action::signed_file) return false;
    return true;
  }
};

Task<Reply> Api::handle(ApiRequest request) {
  static_assert(Handlers::has_all_others());
  if (const auto* row = Handlers::find(request.route.action))
    co_return co_await (this->*row->serve)(std::move(request));
  co_return to_reply({501, "This version of SPACE does not offer this operation yet", "not_implemented", ""});
}

Task<Reply> Api::health(ApiRequest) {
  co_return Reply{.status = 200, .body = R"({"status":"ok"})", .fields = {}};
}

// Asked anew: how much room it has and which accelerator it settled on changes after its first word.
Task<Reply> Api::node_info(ApiRequest) {
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
