// SandboxService: where a sandbox may connect to.
//
// The node carries a change out and says so before the row has it: a refusal leaves the old policy in both.
// Where no answer comes, or the row cannot be written, the node is told the row's policy again.
#include "base/log.h"
#include "control/egress_request.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis change_patience{20'000};  // the gateway cuts what is live before it answers
constexpr Millis answer_patience{10'000};
constexpr Millis test_patience{20'000};  // names are resolved for it

JsonObject egress_request(const std::string& id, const std::string& policy) {
  return {{"id", id}, {"policy", parse_json(policy).value_or(Json())}};
}

Result<EgressChanged> read_change(std::string policy, const JsonObject& answer) {
  SPACE_TRY(const auto generation, require_int(answer, "generation", 0, INT64_MAX));
  SPACE_TRY(const auto cut, int_member(answer, "cut", 0, INT64_MAX));
  return EgressChanged{{std::move(policy), generation}, cut.value_or(0)};
}

// The node may have carried it out without our hearing of it.
bool leaves_doubt(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::deadline || error.code == Code::internal;
}

}  // namespace

// One change under way; goes on when who asked for it leaves.
struct SandboxService::EgressRun {
  explicit EgressRun(const Executor& executor) : done(executor) {}
  std::optional<Result<EgressChanged>> result;
  Event done;
};

Task<Result<EgressChanged>> SandboxService::carry_out_egress(LivePtr live, store::EgressChange change) {
  const std::string id = live->row.id;
  const auto answer = co_await ask_node("sandbox/egress", egress_request(id, change.egress.policy),
                                        Deadline::after(change_patience));
  if (!answer) co_return std::unexpected(answer.error());
  SPACE_CO_TRY(EgressChanged changed, read_change(change.egress.policy, *answer));
  change.egress = changed.egress;
  auto row = co_await repository_.set_egress(id, std::move(change));
  if (!row && row.error().code == Code::conflict)
    co_return fail(Code::not_found, "Sandbox {} was not found: it is being killed", id);
  // Not the database's own word: the node has what the row has not.
  if (!row) co_return fail(Code::internal, "the policy was not recorded: {}", row.error().message);
  live->row = *std::move(row);
  log::info("egress policy changed",
            {{"sandbox", id}, {"generation", changed.egress.generation}, {"cut", changed.cut}});
  co_return changed;
}

Task<void> SandboxService::run_egress_change(LivePtr live, store::EgressChange change,
                                             std::shared_ptr<EgressRun> run) {
  run->result = co_await carry_out_egress(live, std::move(change));
  live->egress_changing = false;
  const auto& result = *run->result;
  if (!result && leaves_doubt(result.error()) && !live->over)
    spawn(executor_, "tell egress policy", tell_egress(live, live->row.egress.generation));
  live->changed.notify_all();
  run->done.notify_all();
}

Task<Result<EgressChanged>> SandboxService::change_egress(std::string team, std::string id, EgressEditor edit,
                                                          bool running_only) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  if (running_only) SPACE_CO_CHECK(co_await settle(live));
  const Deadline deadline = Deadline::after(limits_.transition_patience);
  while (live->egress_changing && !deadline.passed()) co_await live->changed.wait(deadline);
  if (live->egress_changing)
    co_return fail(Code::conflict, "The policy of sandbox {} is being changed. Try again", id);
  if (live->over || is_deletion(live->row.wanted))
    co_return fail(Code::not_found, "Sandbox {} was not found: it is being killed", id);
  if (running_only && !serves(live->row.state))
    co_return fail(Code::conflict,
                   "Sandbox {} is paused. Connect to it first, or use PUT /v1/sandboxes/{}/egress, which "
                   "changes it as it is",
                   id, id);
  SPACE_CO_TRY(store::EgressChange change, edit(live->row));
  live->egress_changing = true;
  const auto run = std::make_shared<EgressRun>(executor_);
  spawn(executor_, "change egress policy", run_egress_change(live, std::move(change), run));
  while (!run->result) co_await run->done.wait();
  co_return *run->result;
}

// The row's policy, which is what clients were told. Unheard, the next reconcile repeats it.
Task<void> SandboxService::tell_egress(LivePtr live, std::int64_t generation) {
  if (live->egress_changing || live->row.egress.generation != generation || live->over ||
      is_deletion(live->row.wanted))
    co_return;
  live->egress_changing = true;
  const auto told = co_await carry_out_egress(
      live, {live->row.egress, live->row.options.allow_internet_access, live->row.options.network});
  live->egress_changing = false;
  live->changed.notify_all();
  if (!told)
    log::warn("egress policy not on the node yet", {{"sandbox", live->row.id}, log::Field(told.error())});
}

Task<Result<EgressState>> SandboxService::egress(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  EgressState state{live->row, {}, {}};
  const auto node = nodes_.current();
  if (!node) co_return state;
  if (auto object = co_await node->call("sandbox/get", {{"id", id}}, Deadline::after(answer_patience)))
    state.object = *std::move(object);
  if (auto stats =
          co_await node->call("sandbox/egress/stats", {{"id", id}}, Deadline::after(answer_patience)))
    state.stats = *std::move(stats);
  state.row = live->row;
  co_return state;
}

Task<Result<JsonObject>> SandboxService::egress_test(std::string team, std::string id, JsonObject request) {
  SPACE_CO_CHECK(co_await kept(team, id));
  request["id"] = id;
  co_return co_await ask_node("sandbox/egress/test", std::move(request), Deadline::after(test_patience));
}

Task<Result<JsonObject>> SandboxService::egress_log(std::string team, std::string id, JsonObject request) {
  SPACE_CO_CHECK(co_await kept(team, id));
  SPACE_CO_TRY(const auto wait_ms, int_member(request, "wait_ms", 0, 60'000));
  request["id"] = id;
  co_return co_await ask_node("sandbox/egress/log", std::move(request),
                              Deadline::after(answer_patience + Millis(wait_ms.value_or(0))));
}

}  // namespace space::control
