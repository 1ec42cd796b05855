// The calls about what a sandbox keeps of itself by itself, and what it goes on from when its VMM died.
#include "sandboxd/rpc.h"
#include "sandboxd/rpc_json.h"

namespace space {

Result<RecoveryPolicy> parse_recovery(const std::string& name) {
  const auto policy = recovery_policy_from(name);
  if (!policy) return fail(Code::invalid_argument, "a recovery policy is disk, checkpoint or none");
  return *policy;
}

NodeRpc::Answer NodeRpc::schedule(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  const auto member = body.find("schedule");
  if (member == body.end()) co_return fail(Code::invalid_argument, "'schedule' is missing");
  SPACE_CO_TRY(auto schedule, schedule_or_off(member->value()));
  SPACE_CO_CHECK(sandbox->set_schedule(std::move(schedule)));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::recovery(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const std::string name, require_text(body, "policy"));
  SPACE_CO_TRY(const RecoveryPolicy policy, parse_recovery(name));
  SPACE_CO_CHECK(sandbox->set_recovery(policy));
  co_return to_json(*sandbox);
}

NodeRpc::Answer NodeRpc::recover(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_CHECK(sandbox->recover_again());
  co_return to_json(*sandbox);
}

}  // namespace space
