// Routes of where a sandbox may connect to: E2B's, and those below /v1/sandboxes/{id}/egress.
#include "control/api.h"
#include "control/egress_json.h"
#include "control/egress_request.h"
#include "control/network_options.h"
#include "control/reply.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(to_api_error(error));
}
Reply reply(const Result<JsonObject>& body) {
  return body ? json_reply(200, *body) : refuse(body.error());
}
Reply changed_reply(const Result<EgressChanged>& changed) {
  if (!changed) return refuse(changed.error());
  return json_reply(200, JsonObject{{"generation", changed->egress.generation}, {"cut", changed->cut}});
}

// What E2B's members said of it is said no more.
Result<store::EgressChange> own_change(const EgressPolicy& policy, const store::Sandbox& row) {
  SPACE_TRY(std::string text, policy_text(policy));
  return store::EgressChange{
      {std::move(text), 0}, std::nullopt, changed_network(row.options.network, JsonObject())};
}

}  // namespace

EgressRights Api::egress_rights(const ApiRequest& request) const {
  return {.may_internal = sandboxes_.limits().egress_internal, .force = is_forced(request.query)};
}

Task<Reply> Api::set_network(ApiRequest request) {
  const auto wanted = parse_network_change(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const EgressMode by_default = sandboxes_.limits().egress_default;
  EgressEditor edit = [wanted = *wanted,
                       by_default](const store::Sandbox& row) -> Result<store::EgressChange> {
    SPACE_TRY(std::string text, policy_text(egress_of(wanted.wish, by_default)));
    return store::EgressChange{{std::move(text), 0},
                               wanted.allow_internet_access,
                               changed_network(row.options.network, wanted.lists)};
  };
  const auto changed =
      co_await sandboxes_.change_egress(request.team.id, request.route.id, std::move(edit), true);
  co_return changed ? no_content() : refuse(changed.error());
}

Task<Reply> Api::get_egress(ApiRequest request) {
  const auto state = co_await sandboxes_.egress(request.team.id, request.route.id);
  if (!state) co_return refuse(state.error());
  co_return reply(egress_json(state->row.egress, state->object, state->stats));
}

Task<Reply> Api::set_egress(ApiRequest request) {
  const auto policy = parse_egress_request(request.body, egress_rights(request));
  if (!policy) co_return refuse(policy.error());
  EgressEditor edit = [policy = *policy](const store::Sandbox& row) { return own_change(policy, row); };
  co_return changed_reply(
      co_await sandboxes_.change_egress(request.team.id, request.route.id, std::move(edit), false));
}

Task<Reply> Api::edit_egress(ApiRequest request) {
  const auto wanted = parse_egress_edit(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const EgressRights rights = egress_rights(request);
  EgressEditor edit = [wanted = *wanted, rights](const store::Sandbox& row) -> Result<store::EgressChange> {
    SPACE_TRY(const EgressPolicy now, policy_of(row.egress));
    SPACE_TRY(const EgressPolicy policy, edited(now, wanted, rights));
    return own_change(policy, row);
  };
  co_return changed_reply(
      co_await sandboxes_.change_egress(request.team.id, request.route.id, std::move(edit), false));
}

Task<Reply> Api::test_egress(ApiRequest request) {
  auto wanted = parse_egress_test(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto answer = co_await sandboxes_.egress_test(request.team.id, request.route.id, *std::move(wanted));
  co_return answer ? reply(egress_test_json(*answer)) : refuse(answer.error());
}

Task<Reply> Api::egress_log(ApiRequest request) {
  auto wanted = parse_egress_log_query(request.query);
  if (!wanted) co_return refuse(wanted.error());
  const auto answer = co_await sandboxes_.egress_log(request.team.id, request.route.id, *std::move(wanted));
  co_return answer ? reply(egress_log_json(*answer)) : refuse(answer.error());
}

}  // namespace space::control
