// SandboxService: sandboxes whose virtual machine died.
//
// The node brings them back, but boots none without its token, which it does not keep: it waits for a resume.
// What cannot be brought back fails and is kept until somebody asks for another try, or deletes it.
#include <algorithm>

#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

Error killed(const std::string& id) {
  return {Code::not_found, fmt::format("Sandbox {} was not found: it is being killed", id)};
}

}  // namespace

// Its row says so while the node is at it, and requests wait.
Task<void> SandboxService::follow_recovery(LivePtr live, NodeReport report) {
  if (!recovers(live->row.state)) {
    live->keeps_end |= !may_rest(live->row.state) && !is_failed(live->row.state);
    const auto row = co_await repository_.set_state(
        live->row.id, {.state = report.state, .wanted = Wanted::running, .reason = report.reason});
    if (!row) {
      log::error("recovery not recorded", {{"sandbox", live->row.id}, log::Field(row.error())});
      co_return;
    }
    live->row = *row;
    log::info("sandbox recovers", {{"sandbox", live->row.id}, {"reason", report.reason}});
    live->changed.notify_all();
  }
  if (live->moving) co_return;
  if (report.awaits_init)
    begin(live, {.request = {.timeout_s = live->row.timeout_s}, .recovery = Move::Recovery::awaited});
  else
    spawn(executor_, "watch sandbox", watch(live, Millis(500)));
}

Task<Result<void>> SandboxService::carry_out_recovery(LivePtr live, Move move) {
  const Deadline deadline = Deadline::after(patience_of(move));
  if (move.recovery == Move::Recovery::asked) {
    live->keeps_end = false;
    SPACE_CO_TRY(live->row, co_await repository_.set_state(
                                live->row.id, {.state = State::recovering, .wanted = Wanted::running}));
    const auto answer = co_await ask_again("sandbox/recover", {{"id", live->row.id}}, deadline);
    if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(killed(live->row.id));
    if (!answer) co_return co_await after_refusal(live, answer.error());
    SPACE_CO_TRY(const NodeReport report, read_report(*answer));
    if (!recovers(report.state) || !report.awaits_init) co_return co_await after_answer(live, *answer, move);
  }
  const auto resumed = co_await ask_again("sandbox/resume", move_request(live, move), deadline);
  if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(killed(live->row.id));
  if (!resumed) co_return co_await after_refusal(live, resumed.error());
  co_return co_await after_answer(live, *resumed, move);
}

// No tombstone: the node holds its disk and snapshots.
Task<void> SandboxService::keep_failed(LivePtr live, std::string reason) {
  timeouts_.remove(live->row.id);
  if (is_failed(live->row.state) && live->row.reason == reason) co_return;
  store::StateChange change{.state = State::failed, .reason = reason};
  if (live->row.end_at > clock_.wall()) change.end_at = clock_.wall();
  const auto row = co_await repository_.set_state(live->row.id, change);
  if (!row) {
    log::error("failure not recorded", {{"sandbox", live->row.id}, log::Field(row.error())});
    co_return;
  }
  live->row = *row;
  live->keeps_end = false;
  log::warn("sandbox has failed, its disk is kept", {{"sandbox", live->row.id}, {"reason", reason}});
  live->changed.notify_all();
}

Task<Result<void>> SandboxService::recover(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  if (is_failed(live->row.state) && !live->moving) {
    if (!co_await nodes_.wait(Deadline::after(limits_.node_patience)))
      co_return fail(Code::unavailable, "No node is connected. Is space-sandboxd running?");
    if (is_failed(live->row.state) && !live->moving && !live->over && !is_deletion(live->row.wanted))
      SPACE_CO_CHECK(co_await finished(
          live, {.request = {.timeout_s = live->row.timeout_s}, .recovery = Move::Recovery::asked}));
  }
  co_return co_await settle(live);
}

}  // namespace space::control
