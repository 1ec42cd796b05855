// Routes of forks and of snapshots that are created from.
#include "control/api.h"
#include "control/reply.h"
#include "control/snapshot_query.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(move_error(error));
}

}  // namespace

Task<Reply> Api::fork(ApiRequest request, ForkRoute route) {
  const auto wanted = parse_fork_request(request.body, route, sandboxes_.limits().timeout_max_s);
  if (!wanted) co_return refuse(wanted.error());
  const auto results = co_await sandboxes_.fork(request.team, request.route.id, *wanted);
  if (!results) co_return refuse(results.error());
  co_return json_reply(201, forks_json(*results, domain_));
}

Task<Reply> Api::publish_snapshot(ApiRequest request) {
  const auto name = parse_publish_request(request.body, request.team.name);
  if (!name) co_return refuse(name.error());
  const auto row = co_await sandboxes_.publish(request.team.id, request.route.id, *name);
  if (!row) co_return refuse(row.error());
  co_return json_reply(201, published_json(*row, request.team.name));
}

Task<Reply> Api::list_published(ApiRequest request) {
  const auto query = parse_snapshot_query(request.query, request.team);
  if (!query) co_return refuse(query.error());
  const auto page = co_await repository_.list_snapshot_templates(*query);
  if (!page) co_return refuse(page.error());
  JsonArray body;
  for (const store::SnapshotTemplate& row : page->snapshots)
    body.push_back(published_json(row, request.team.name));
  Reply reply = json_reply(200, body);
  if (page->more) reply.fields.add("X-Next-Token", encode_snapshot_cursor(page->snapshots.back().build));
  co_return reply;
}

// The operator's templates are not a team's to delete.
Task<Reply> Api::remove_published(ApiRequest request) {
  const TemplateKey key = parse_template_key(request.route.id, request.team.name);
  const auto done = co_await sandboxes_.snapshot_templates().remove(request.team, key);
  if (done) co_return Reply{.status = 204, .body = {}, .fields = {}};
  if (done.error().code != Code::conflict) co_return refuse(done.error());
  co_return to_reply(
      {400,
       fmt::format("Snapshot '{}' is in use: {}. Delete those first", request.route.id, done.error().message),
       "snapshot_in_use", ""});
}

}  // namespace space::control
