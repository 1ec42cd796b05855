// Routes that let a sandbox rest and bring it back.
#include "control/api.h"
#include "control/move_json.h"
#include "control/reply.h"
#include "control/sandbox_json.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(move_error(error));
}

}  // namespace

Task<Reply> Api::resume(ApiRequest request) {
  const auto wanted = parse_connect_request(request.body, ApiVersion::v1, sandboxes_.limits().timeout_max_s);
  if (!wanted) co_return refuse(wanted.error());
  const auto connected = co_await sandboxes_.resume(request.team.id, request.route.id, *wanted);
  if (!connected) co_return refuse(connected.error());
  co_return json_reply(201, sandbox_json(connected->row, domain_));
}

Task<Reply> Api::start_again(ApiRequest request) {
  co_return co_await connect(std::move(request), ApiVersion::v2);
}

Task<Reply> Api::pause(ApiRequest request) {
  const auto keep_memory = parse_pause_request(request.body);
  if (!keep_memory) co_return refuse(keep_memory.error());
  const auto done = co_await sandboxes_.pause(request.team.id, request.route.id, *keep_memory);
  co_return done ? no_content() : refuse(done.error());
}

Task<Reply> Api::stop(ApiRequest request) {
  const auto done = co_await sandboxes_.stop(request.team.id, request.route.id);
  co_return done ? no_content() : refuse(done.error());
}

Task<Reply> Api::get_pause_policy(ApiRequest request) {
  const auto row = co_await sandboxes_.find(request.team.id, request.route.id);
  if (!row) co_return refuse(row.error());
  co_return json_reply(200, policy_json(row->policy));
}

Task<Reply> Api::set_pause_policy(ApiRequest request) {
  const auto row = co_await sandboxes_.find(request.team.id, request.route.id);
  if (!row) co_return refuse(row.error());
  const auto wanted = parse_pause_policy(request.body, row->policy);
  if (!wanted) co_return refuse(wanted.error());
  const auto policy = co_await sandboxes_.set_policy(request.team.id, request.route.id, *wanted);
  co_return policy ? json_reply(200, policy_json(*policy)) : refuse(policy.error());
}

}  // namespace space::control
