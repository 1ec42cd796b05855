#include "control/api.h"
#include "control/list_query.h"
#include "control/reply.h"
#include "control/sandbox_json.h"

namespace space::control {
namespace {

Reply refuse(const Error& error) {
  return to_reply(to_api_error(error));
}

bool includes_running(const store::SandboxQuery& query) {
  return std::ranges::any_of(query.states,
                             [](State state) { return client_view(state) == ClientView::running; });
}

}  // namespace

Task<Reply> Api::create(ApiRequest request, ApiVersion version) {
  auto wanted =
      parse_create_request(request.body, version, sandboxes_.limits().timeout_max_s, egress_rights(request));
  if (!wanted) co_return refuse(wanted.error());
  const auto row = co_await sandboxes_.create(std::move(request.team), *std::move(wanted));
  if (!row) co_return to_reply(row.error());
  co_return json_reply(201, sandbox_json(*row, domain_));
}

Task<Reply> Api::connect(ApiRequest request, ApiVersion version) {
  const auto wanted = parse_connect_request(request.body, version, sandboxes_.limits().timeout_max_s);
  if (!wanted) co_return refuse(wanted.error());
  const auto connected = co_await sandboxes_.connect(request.team.id, request.route.id, *wanted);
  if (!connected) co_return to_reply(move_error(connected.error()));
  co_return json_reply(connected->resumed ? 201 : 200, sandbox_json(connected->row, domain_));
}

Task<Reply> Api::list(ApiRequest request) {
  auto query = parse_list_query(request.query);
  if (!query) co_return refuse(query.error());
  query->team = request.team.id;
  const auto page = co_await repository_.list_sandboxes(*query);
  if (!page) co_return refuse(page.error());
  JsonArray body;
  for (const store::Sandbox& row : page->sandboxes) body.push_back(listed_sandbox_json(row));
  Reply reply = json_reply(200, body);
  if (page->more) {
    const store::Sandbox& last = page->sandboxes.back();
    reply.fields.add("X-Next-Token", encode_cursor({last.started_at, last.id}, query->order));
  }
  if (includes_running(*query)) {
    std::erase_if(query->states, [](State state) { return client_view(state) != ClientView::running; });
    const auto total = co_await repository_.count_sandboxes(*query);
    if (!total) co_return refuse(total.error());
    reply.fields.add("X-Total-Running", std::to_string(*total));
  }
  co_return reply;
}

Task<Reply> Api::get(ApiRequest request) {
  const auto row = co_await sandboxes_.find(request.team.id, request.route.id);
  if (!row) co_return refuse(row.error());
  co_return json_reply(200, sandbox_detail_json(*row, domain_));
}

Task<Reply> Api::remove(ApiRequest request) {
  const auto removed = co_await sandboxes_.remove(request.team.id, request.route.id);
  co_return removed ? no_content() : refuse(removed.error());
}

Task<Reply> Api::set_timeout(ApiRequest request) {
  const auto timeout_s = parse_timeout_request(request.body);
  if (!timeout_s) co_return refuse(timeout_s.error());
  const auto row = co_await sandboxes_.set_timeout(request.team.id, request.route.id, *timeout_s);
  co_return row ? no_content() : refuse(row.error());
}

}  // namespace space::control
