// SandboxService: pause, stop and resume, and what is the same of a rollback and a recovery.
//
// A move writes its wish, asks the node, writes what came of it. A crash in between leaves a row in
// transition; reconcile repeats the move, which the node takes as the same one.
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis look_patience{10'000};
constexpr Millis watch_first{500};
constexpr Millis watch_max{10'000};
constexpr Millis recover_again{3'000};     // after a node that could not yet
constexpr Millis pause_again{30'000};      // after one that failed at a timeout
constexpr std::int64_t wake_life_s = 300;  // at least, of a sandbox that a request woke

std::string call_of(Wanted to) {
  return to == Wanted::running ? "sandbox/resume" : to == Wanted::paused ? "sandbox/pause" : "sandbox/stop";
}

Error being_killed(const std::string& id) {
  return {Code::not_found, fmt::format("Sandbox {} was not found: it is being killed", id)};
}

Error has_failed(const store::Sandbox& row) {
  return {
      Code::conflict,
      fmt::format(
          "Sandbox {} has failed: {}. POST /v1/sandboxes/{}/recovery (`space recovery {} --now`) tries to "
          "bring it back",
          row.id, row.reason, row.id, row.id)};
}

}  // namespace

// Waits until nothing is under way. From the return to the next co_await nothing begins either.
Task<Result<void>> SandboxService::settle(LivePtr live) {
  const Deadline deadline = Deadline::after(limits_.transition_patience);
  while (live->moving || in_transition(live->row.state)) {
    if (live->over || is_deletion(live->row.wanted)) break;
    if (deadline.passed())
      co_return fail(Code::conflict, "Sandbox {} is still transitioning. Try again in a moment",
                     live->row.id);
    co_await live->changed.wait(deadline);
  }
  if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(being_killed(live->row.id));
  if (is_failed(live->row.state)) co_return std::unexpected(has_failed(live->row));
  co_return Result<void>();
}

// The same, with a node there to ask.
Task<Result<void>> SandboxService::ready_to_move(LivePtr live) {
  while (true) {
    SPACE_CO_CHECK(co_await settle(live));
    if (nodes_.current()) co_return Result<void>();
    if (!co_await nodes_.wait(Deadline::after(limits_.node_patience)))
      co_return fail(Code::unavailable, "No node is connected. Is space-sandboxd running?");
  }
}

void SandboxService::begin(LivePtr live, Move move) {
  live->moving = true;
  live->rollback = move.rollback;
  spawn(executor_, "move sandbox", run_move(std::move(live), std::move(move)));
}

Task<void> SandboxService::run_move(LivePtr live, Move move) {
  const auto done = co_await carry_out(live, move);
  live->moving = false;
  ++live->moves;
  live->move_failed = !done;
  const bool stays = !live->over && !is_deletion(live->row.wanted);
  if (!done) {
    live->move_error = done.error();
    log::warn("sandbox not moved", {{"sandbox", live->row.id},
                                    {"wanted", to_string(move.to)},
                                    {"state", to_string(live->row.state)},
                                    log::Field(done.error())});
    // A timeout that could not pause it comes again.
    if (stays && serves(live->row.state)) arm_not_before(live, pause_again);
  }
  if (stays && in_transition(live->row.state))
    spawn(executor_, "watch sandbox", watch(live, recovers(live->row.state) ? recover_again : watch_first));
  live->changed.notify_all();
}

JsonObject SandboxService::move_request(const LivePtr& live, const Move& move) const {
  JsonObject request{{"id", live->row.id}};
  if (move.to != Wanted::running) return request;
  request["access_token"] = live->row.access_token;
  if (!live->row.default_user.empty()) request["default_user"] = live->row.default_user;
  if (!live->row.default_workdir.empty()) request["default_workdir"] = live->row.default_workdir;
  request["boot"] = move.request.boot;
  return request;
}

Task<Result<void>> SandboxService::carry_out(LivePtr live, Move move) {
  if (move.rollback) co_return co_await carry_out_rollback(live, move);
  if (move.recovery != Move::Recovery::none) co_return co_await carry_out_recovery(live, move);
  store::StateChange change{.state = way_to(move.to), .wanted = move.to};
  if (move.request.pause_on_timeout) change.pause_on_timeout = true;
  SPACE_CO_TRY(live->row, co_await repository_.set_state(live->row.id, change));
  timeouts_.remove(live->row.id);
  const auto answer =
      co_await ask_again(call_of(move.to), move_request(live, move), Deadline::after(limits_.move_patience));
  if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(being_killed(live->row.id));
  if (!answer) co_return co_await after_refusal(live, answer.error());
  const State reached = move.to == Wanted::running  ? State::running
                        : move.to == Wanted::paused ? State::paused
                                                    : State::stopped;
  co_return co_await record(live, reached, move.request.timeout_s);
}

// Of a rollback or recovery: the node may still be at it, and is watched then.
Task<Result<void>> SandboxService::after_answer(LivePtr live, JsonObject object, const Move& move) {
  if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(being_killed(live->row.id));
  SPACE_CO_TRY(const NodeReport report, read_report(object));
  if (fulfils(report.state)) co_return co_await record(live, report.state, move.request.timeout_s);
  if (is_failed(report.state) && report.disk_kept) co_await keep_failed(live, report.reason);
  co_return Result<void>();
}

// The node is the truth about what came of it: what it has is what is wanted from now on. Without a node the
// row stays as it is, and reconcile goes on from there.
Task<Result<void>> SandboxService::after_refusal(LivePtr live, Error refusal) {
  const std::string id = live->row.id;
  const auto object = co_await ask_node("sandbox/get", {{"id", id}}, Deadline::after(look_patience));
  if (live->over || is_deletion(live->row.wanted)) co_return std::unexpected(being_killed(id));
  if (!object && object.error().code == Code::not_found) {
    co_await bury(live, State::failed, "its node lost it");
    co_return std::unexpected(refusal);
  }
  const auto report = object ? read_report(*object) : std::unexpected(object.error());
  if (!report) co_return std::unexpected(refusal);
  if (is_failed(report->state) && report->disk_kept) {
    co_await keep_failed(live, report->reason);
  } else if (recovers(report->state)) {
    co_await follow_recovery(live, *report);
  } else if (is_failed(report->state) || is_end(report->state)) {
    co_await bury(live, State::failed, report->reason);
    spawn(executor_, "remove from node", remove_orphan(id));
  } else if (fulfils(report->state)) {
    SPACE_CO_CHECK(co_await record(live, report->state, live->row.timeout_s));
  }
  co_return std::unexpected(refusal);
}

// Writes a settled state with what follows from it: a sandbox that comes back gets a new life, one that rests
// has no end to wait for, and one that never left keeps what it had, as does one that went on from a snapshot
// or a crash. A restart of this process in the middle of those forgets which it was: never a shorter life.
Task<Result<void>> SandboxService::record(LivePtr live, State state, std::int64_t timeout_s) {
  const Wall now = clock_.wall();
  const store::Sandbox& row = live->row;
  store::StateChange change{.state = state, .wanted = fulfils(state)};
  if (!row.reason.empty()) change.reason = "";
  const bool keeps_end = live->keeps_end || (recovers(row.state) && row.end_at > now);
  const bool was_away =
      may_rest(row.state) || half_built(row.state) || recovers(row.state) || is_failed(row.state);
  if (serves(state) && was_away && !keeps_end) {
    change.started_at = now;
    change.end_at = end_after(now, timeout_s > 0 ? timeout_s : row.timeout_s);
    if (!half_built(row.state)) change.end_at = std::max(*change.end_at, row.end_at);
  } else if (rests(state) && row.end_at > now) {
    change.end_at = now;
  }
  SPACE_CO_TRY(live->row, co_await repository_.set_state(live->row.id, change));
  live->keeps_end = false;
  if (serves(state))
    arm(live->row);
  else
    timeouts_.remove(live->row.id);
  live->changed.notify_all();
  co_return Result<void>();
}

// Of a transition that is not ours: looks again until it is over.
Task<void> SandboxService::watch(LivePtr live, Millis first_pause) {
  if (live->watched) co_return;
  live->watched = true;
  for (Millis pause = first_pause;; pause = std::min(pause * 2, watch_max)) {
    co_await sleep_for(pause);
    if (live->over || live->moving || !in_transition(live->row.state) || !nodes_.current()) break;
    co_await refresh(live->row.id);
  }
  live->watched = false;
}

// A rollback keeps what there is before it brings back what there was.
Millis SandboxService::patience_of(const Move& move) const {
  return move.rollback ? 2 * limits_.move_patience : limits_.move_patience;
}

Task<Result<store::Sandbox>> SandboxService::finished(LivePtr live, Move move) {
  const std::uint64_t before = live->moves;
  const Deadline deadline = Deadline::after(patience_of(move) + limits_.node_patience + look_patience);
  begin(live, std::move(move));
  while (live->moves == before && !deadline.passed()) co_await live->changed.wait(deadline);
  if (live->moves == before)
    co_return fail(Code::deadline, "Sandbox {} is still transitioning. Try again in a moment", live->row.id);
  if (live->move_failed) co_return std::unexpected(live->move_error);
  co_return live->row;
}

Task<Result<void>> SandboxService::pause(std::string team, std::string id, bool keep_memory) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_CHECK(co_await ready_to_move(live));
  if (rests(live->row.state)) co_return fail(Code::conflict, "Sandbox {} is already paused", id);
  SPACE_CO_CHECK(co_await finished(live, {.to = keep_memory ? Wanted::paused : Wanted::stopped}));
  co_return Result<void>();
}

Task<Result<void>> SandboxService::stop(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_CHECK(co_await ready_to_move(live));
  if (fulfils(live->row.state) == Wanted::stopped) co_return Result<void>();
  SPACE_CO_CHECK(co_await finished(live, {.to = Wanted::stopped}));
  co_return Result<void>();
}

// `live` may run by now: then somebody else brought it back.
Task<Result<Connected>> SandboxService::bring_back(LivePtr live, ConnectRequest request) {
  const std::uint64_t before = live->moves;
  SPACE_CO_CHECK(co_await ready_to_move(live));
  if (serves(live->row.state)) co_return Connected{live->row, false};
  // We waited for a resume that failed: its error is ours too, or each of a hundred would try in turn.
  if (live->moves != before && live->move_failed) co_return std::unexpected(live->move_error);
  SPACE_CO_TRY(auto row, co_await finished(live, {.to = Wanted::running, .request = request}));
  co_return Connected{std::move(row), true};
}

Task<Result<Connected>> SandboxService::connect(std::string team, std::string id, ConnectRequest request) {
  if (const auto found = live_.find(id);
      found != live_.end() && found->second->row.team == team && is_deletion(found->second->row.wanted))
    co_return fail(Code::conflict, "Sandbox {} is being killed", id);
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  if (serves(live->row.state) && !live->moving) note_call(id);
  Connected connected;
  if (!serves(live->row.state) || live->moving) {
    SPACE_CO_TRY(connected, co_await bring_back(live, request));
    if (connected.resumed) co_return connected;
  }
  const Wall wanted = end_after(clock_.wall(), std::min(request.timeout_s, limits_.timeout_max_s));
  if (wanted > live->row.end_at) {
    SPACE_CO_CHECK(co_await move_end(live, wanted));
  }
  co_return Connected{live->row, false};
}

Task<Result<Connected>> SandboxService::resume(std::string team, std::string id, ConnectRequest request) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_TRY(auto connected, co_await bring_back(live, request));
  if (!connected.resumed) co_return fail(Code::conflict, "Sandbox {} is already running", id);
  co_return connected;
}

Task<Result<void>> SandboxService::awaken(std::string id, Deadline deadline) {
  const auto found = live_.find(id);
  if (found == live_.end()) co_return fail(Code::not_found, "Sandbox {} was not found", id);
  const LivePtr live = found->second;
  const ConnectRequest request{.timeout_s = std::max(live->row.timeout_s, wake_life_s)};
  SPACE_CO_CHECK(co_await settle(live));
  if (serves(live->row.state)) co_return Result<void>();
  if (!live->row.lifecycle.auto_resume) co_return fail(Code::not_found, "Sandbox {} is paused", id);
  const auto woken = co_await with_deadline(bring_back(live, request), deadline, "resuming the sandbox");
  if (!woken) co_return std::unexpected(woken.error());
  co_return Result<void>();
}

// What its creator chose instead of its death.
void SandboxService::rest(const LivePtr& live) {
  if (live->moving || !serves(live->row.state)) return;
  log::info("sandbox rests", {{"sandbox", live->row.id}, {"reason", "its timeout passed"}});
  begin(live, {.to = live->row.lifecycle.pause_keeps_memory ? Wanted::paused : Wanted::stopped});
}

}  // namespace space::control
