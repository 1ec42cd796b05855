#include "control/api.h"
#include "control/move_json.h"
#include "control/observation_json.h"
#include "control/sandbox_json.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(to_api_error(error));
}

}  // namespace

Task<Reply> Api::logs(ApiRequest request, LogRoute route) {
  const auto query = parse_log_query(request.query, route);
  if (!query) co_return refuse(query.error());
  const auto answer = co_await sandboxes_.logs(request.team.id, node_log_request(*query, request.route.id));
  if (!answer) co_return refuse(answer.error());
  co_return Reply{.status = 200, .body = to_text(logs_json(*answer, route)), .fields = {}};
}

Task<Reply> Api::sandbox_stats(ApiRequest request) {
  const auto observed = co_await sandboxes_.stats(request.team.id, request.route.id);
  if (!observed) co_return refuse(observed.error());
  co_return Reply{.status = 200, .body = to_text(stats_json(observed->row, observed->answer)), .fields = {}};
}

Task<Reply> Api::isolation(ApiRequest request) {
  const auto observed = co_await sandboxes_.isolation(request.team.id, request.route.id);
  if (!observed) co_return refuse(observed.error());
  const auto body = isolation_json(observed->row.id, observed->answer);
  if (!body) co_return refuse(body.error());
  co_return Reply{.status = 200, .body = to_text(*body), .fields = {}};
}

Task<Reply> Api::inspect(ApiRequest request) {
  const auto observed = co_await sandboxes_.inspect(request.team.id, request.route.id);
  if (!observed) co_return refuse(observed.error());
  JsonObject body = sandbox_detail_json(observed->row, domain_);
  const auto noted = add_node_view(body, observed->row, observed->answer);
  if (!noted) co_return refuse(noted.error());
  co_return Reply{.status = 200, .body = to_text(body), .fields = {}};
}

Task<Reply> Api::all_stats(ApiRequest request) {
  const auto all = co_await sandboxes_.all_stats(request.team.id);
  if (!all) co_return refuse(all.error());
  JsonArray sandboxes;
  for (const Observed& one : *all) sandboxes.push_back(stats_json(one.row, one.answer));
  co_return Reply{
      .status = 200, .body = to_text(JsonObject{{"sandboxes", std::move(sandboxes)}}), .fields = {}};
}

}  // namespace space::control
