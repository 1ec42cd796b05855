// SandboxService: pause policies and the warm pools. The node does the work.
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis answer_patience{10'000};

Json seconds(std::optional<std::int64_t> value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Task<void> SandboxService::tell_policy(LivePtr live) {
  const store::PausePolicy& policy = live->row.policy;
  const auto told = co_await ask_node("sandbox/policy",
                                      {{"id", live->row.id},
                                       {"idle_pause_s", seconds(policy.idle_pause_s)},
                                       {"hot_keep_s", seconds(policy.hot_keep_s)}},
                                      Deadline::after(answer_patience));
  if (!told)
    log::warn("pause policy not on the node yet", {{"sandbox", live->row.id}, log::Field(told.error())});
}

// Written down is promised: a node that is away hears of it when it is back.
Task<Result<store::PausePolicy>> SandboxService::set_policy(std::string team, std::string id,
                                                            store::PausePolicy policy) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_TRY(live->row, co_await repository_.set_policy(id, policy));
  co_await tell_policy(live);
  co_return live->row.policy;
}

Task<Result<JsonObject>> SandboxService::pools() {
  co_return co_await ask_node("pool/list", {}, Deadline::after(answer_patience));
}

Task<Result<void>> SandboxService::set_pool(std::string digest, std::optional<std::int64_t> target) {
  SPACE_CO_CHECK(co_await ask_node("pool/set", {{"template", digest}, {"target", seconds(target)}},
                                   Deadline::after(answer_patience)));
  co_return Result<void>();
}

}  // namespace space::control
