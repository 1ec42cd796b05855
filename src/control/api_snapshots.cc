// Routes of what is kept of a sandbox: snapshots, rollback, forks, schedule, recovery, history, differences.
#include "control/api.h"
#include "control/reply.h"
#include "control/sandbox_json.h"
#include "control/snapshot_json.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(move_error(error));
}
Reply reply(int status, const Result<JsonObject>& body) {
  return body ? json_reply(status, *body) : refuse(body.error());
}
Reply schedule_reply(const Result<store::Sandbox>& row) {
  if (!row) return refuse(row.error());
  return json_reply(200, JsonObject{{"schedule", schedule_json(row->schedule)}});
}

}  // namespace

Task<Reply> Api::checkpoint(ApiRequest request) {
  const auto wanted = parse_snapshot_request(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto made = co_await sandboxes_.snapshot(request.team.id, request.route.id, *wanted);
  if (!made) co_return refuse(made.error());
  co_return reply(201, snapshot_json(*made));
}

Task<Reply> Api::snapshots(ApiRequest request) {
  const auto measure = parse_snapshots_query(request.query);
  if (!measure) co_return refuse(measure.error());
  const auto answer = co_await sandboxes_.snapshots(request.team.id, request.route.id, *measure);
  if (!answer) co_return refuse(answer.error());
  co_return reply(200, snapshots_json(*answer));
}

Task<Reply> Api::remove_snapshot(ApiRequest request) {
  const auto number = parse_snapshot_number(request.route.number);
  if (!number) co_return refuse(number.error());
  const auto done = co_await sandboxes_.remove_snapshot(request.team.id, request.route.id, *number);
  co_return done ? no_content() : refuse(done.error());
}

Task<Reply> Api::change_snapshot(ApiRequest request) {
  const auto number = parse_snapshot_number(request.route.number);
  if (!number) co_return refuse(number.error());
  const auto wanted = parse_snapshot_change(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto answer =
      co_await sandboxes_.change_snapshot(request.team.id, request.route.id, *number, *wanted);
  if (!answer) co_return refuse(answer.error());
  co_return reply(200, snapshot_json(*answer));
}

Task<Reply> Api::rollback(ApiRequest request) {
  const auto wanted = parse_rollback_request(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto done = co_await sandboxes_.rollback(request.team.id, request.route.id, *wanted);
  if (!done) co_return refuse(done.error());
  co_return json_reply(200, JsonObject{{"sandbox", sandbox_json(done->row, domain_)},
                                       {"snapshot", done->snapshot},
                                       {"undo", done->undo}});
}

Task<Reply> Api::get_schedule(ApiRequest request) {
  const auto observed = co_await sandboxes_.inspect(request.team.id, request.route.id);
  if (!observed) co_return refuse(observed.error());
  co_return schedule_reply(observed->row);
}

Task<Reply> Api::set_schedule(ApiRequest request) {
  auto wanted = parse_schedule_request(request.body);
  if (!wanted) co_return refuse(wanted.error());
  co_return schedule_reply(
      co_await sandboxes_.set_schedule(request.team.id, request.route.id, *std::move(wanted)));
}

Task<Reply> Api::get_recovery(ApiRequest request) {
  const auto observed = co_await sandboxes_.inspect(request.team.id, request.route.id);
  if (!observed) co_return refuse(observed.error());
  co_return reply(200, recovery_json(observed->row, observed->answer));
}

Task<Reply> Api::set_recovery(ApiRequest request) {
  const auto wanted = parse_recovery_request(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto row = co_await sandboxes_.set_recovery(request.team.id, request.route.id, *wanted);
  if (!row) co_return refuse(row.error());
  co_return co_await get_recovery(std::move(request));
}

Task<Reply> Api::recover(ApiRequest request) {
  const auto done = co_await sandboxes_.recover(request.team.id, request.route.id);
  if (!done) co_return refuse(done.error());
  co_return co_await get_recovery(std::move(request));
}

Task<Reply> Api::history(ApiRequest request) {
  const auto answer = co_await sandboxes_.history(request.team.id, request.route.id);
  if (!answer) co_return refuse(answer.error());
  co_return reply(200, history_json(*answer));
}

Task<Reply> Api::diff(ApiRequest request) {
  const auto query = parse_diff_query(request.query);
  if (!query) co_return refuse(query.error());
  const auto answer = co_await sandboxes_.diff(request.team.id, request.route.id, *query);
  if (!answer) co_return refuse(answer.error());
  co_return reply(200, diff_json(*answer, query->limit));
}

}  // namespace space::control
