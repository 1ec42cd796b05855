// Routes of the warm pools: virtual machines that wait to become somebody's sandbox.
#include "control/api.h"
#include "control/move_json.h"

namespace space::control {
namespace {

constexpr std::int64_t target_max = 1000;

Reply refuse(const Error& error) {
  return to_reply(to_api_error(error));
}

Result<std::optional<std::int64_t>> parse_target(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  if (!body.contains("target"))
    return fail(Code::invalid_argument,
                "'target' is missing: a number of VMs, or null for the node's default");
  return int_member(body, "target", 0, target_max);
}

}  // namespace

Task<Reply> Api::list_pools(ApiRequest) {
  const auto templates = co_await repository_.list_templates();
  if (!templates) co_return refuse(templates.error());
  std::map<std::string, std::string> names;
  for (const store::Template& row : *templates) names.emplace(row.digest, row.name);
  const auto answer = co_await sandboxes_.pools();
  if (!answer) co_return refuse(answer.error());
  const auto body = pools_json(*answer, names);
  if (!body) co_return refuse(body.error());
  co_return Reply{.status = 200, .body = to_text(*body), .fields = {}};
}

Task<Reply> Api::set_pool(ApiRequest request) {
  const auto target = parse_target(request.body);
  if (!target) co_return refuse(target.error());
  const auto found = co_await repository_.find_template(request.route.id);
  if (!found) co_return refuse(found.error());
  if (!*found)
    co_return to_reply({404,
                        fmt::format("Template '{}' was not found. `space template ls` shows those that exist",
                                    request.route.id),
                        "", ""});
  const auto done = co_await sandboxes_.set_pool((*found)->digest, *target);
  if (!done) co_return refuse(done.error());
  co_return Reply{.status = 204, .body = {}, .fields = {}};
}

}  // namespace space::control
