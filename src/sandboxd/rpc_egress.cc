// The calls about what a sandbox may reach. What has to do with connections is the gateway's to say.
#include <initializer_list>

#include "core/egress_policy.h"
#include "sandboxd/rpc.h"
#include "sandboxd/rpc_json.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis gateway_limit = 10s;
constexpr std::int64_t log_wait_ms_max = 30'000;

// As text, for the journal. Who may open what was decided by the control plane.
Result<std::string> policy_text(const JsonObject& policy) {
  SPACE_TRY(const EgressPolicy parsed, parse_egress_policy(policy, {.may_internal = true, .force = true}));
  return to_text(to_json(parsed));
}

JsonObject only(const JsonObject& body, std::initializer_list<std::string_view> names) {
  JsonObject result;
  for (const std::string_view name : names)
    if (const auto found = body.find(name); found != body.end()) result[name] = found->value();
  return result;
}

}  // namespace

Result<Egress> parse_egress(const JsonObject& body) {
  Egress egress;
  SPACE_TRY(const JsonObject* policy, object_member(body, "egress"));
  if (policy == nullptr) return egress;
  SPACE_TRY(egress.policy, policy_text(*policy));
  SPACE_TRY(const auto generation, int_member(body, "egress_generation", 0, rpc_integer_max));
  egress.generation = generation.value_or(1);
  return egress;
}

NodeRpc::Answer NodeRpc::set_egress(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const JsonObject* policy, object_member(body, "policy"));
  if (policy == nullptr) co_return fail(Code::invalid_argument, "'policy' is missing");
  SPACE_CO_TRY(std::string text, policy_text(*policy));
  SPACE_CO_TRY(const std::int64_t cut,
               co_await sandbox->set_egress(std::move(text), Deadline::after(gateway_limit)));
  co_return JsonObject{{"generation", sandbox->record().egress_generation}, {"cut", cut}};
}

NodeRpc::Answer NodeRpc::test_egress(JsonObject body) {
  SPACE_CO_CHECK(find_sandbox(parts_.manager, body));
  co_return co_await parts_.netd.call("test", only(body, {"id", "url", "host", "port"}),
                                      Deadline::after(gateway_limit));
}

NodeRpc::Answer NodeRpc::egress_log(JsonObject body) {
  SPACE_CO_CHECK(find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const auto wait_ms, int_member(body, "wait_ms", 0, log_wait_ms_max));
  co_return co_await parts_.netd.call("log", only(body, {"id", "after", "limit", "wait_ms"}),
                                      Deadline::after(gateway_limit + Millis(wait_ms.value_or(0))));
}

NodeRpc::Answer NodeRpc::egress_stats(JsonObject body) {
  SPACE_CO_CHECK(find_sandbox(parts_.manager, body));
  co_return co_await parts_.netd.call("stats", only(body, {"id"}), Deadline::after(gateway_limit));
}

}  // namespace space
