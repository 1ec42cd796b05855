// The half of SandboxService that talks to the node about what is: deletions, deaths, reconciliation.
#include <algorithm>
#include <set>

#include "base/ids.h"
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis node_delete_patience{30'000};
constexpr Millis node_list_patience{15'000};
constexpr std::int64_t event_wait_ms = 25'000;
constexpr Millis retry_first{250};
constexpr Millis retry_max{10'000};
constexpr Millis watch_first{500};

bool ended(State state) {
  return is_failed(state) || is_end(state);
}

// The node shows its own default of how long memory stays at hand.
bool is_outdated(const store::PausePolicy& on_node, const store::PausePolicy& wanted) {
  return on_node.idle_pause_s != wanted.idle_pause_s ||
         (wanted.hot_keep_s && on_node.hot_keep_s != wanted.hot_keep_s);
}

Result<bool> flag(const JsonObject& object, std::string_view key) {
  SPACE_TRY(const auto value, bool_member(object, key));
  return value.value_or(false);
}

// Nothing when the node did not speak of it, or of one that we would not have given it.
Result<std::optional<std::optional<SnapshotSchedule>>> schedule_of(const JsonObject& object) {
  using Told = std::optional<std::optional<SnapshotSchedule>>;
  const Json* given = object.if_contains("schedule");
  if (given == nullptr) return Told();
  if (given->is_null()) return Told(std::optional<SnapshotSchedule>());
  SPACE_TRY(auto schedule, schedule_from_json(*given));
  return Told(std::move(schedule));
}

}  // namespace

// Goes on over lost sessions. False: no node came back in time; the next one's reconcile takes it up again.
Task<bool> SandboxService::remove_from_node(std::string id) {
  Millis pause = retry_first;
  while (const auto node = co_await nodes_.wait(Deadline::after(limits_.node_patience))) {
    const auto done =
        co_await node->call("sandbox/delete", {{"id", id}}, Deadline::after(node_delete_patience));
    if (done) co_return true;
    if (node->closed()) continue;
    log::warn("sandbox not deleted on the node, retrying", {{"sandbox", id}, log::Field(done.error())});
    co_await sleep_for(pause);
    pause = std::min(pause * 2, retry_max);
  }
  co_return false;
}

Task<void> SandboxService::remove_orphan(std::string id) {
  (void)co_await remove_from_node(std::move(id));
}

Task<void> SandboxService::converge_deletion(LivePtr live) {
  if (live->deleting_here || live->over) co_return;
  live->deleting_here = true;
  if (co_await remove_from_node(live->row.id)) co_await bury(live, State::deleted, live->row.reason);
  live->deleting_here = false;
  live->changed.notify_all();
}

// Writes the tombstone. If the database fails, the row stays unfinished and the next reconcile repeats this.
Task<void> SandboxService::bury(LivePtr live, State state, std::string reason) {
  const auto row = co_await repository_.finish(live->row.id, state, std::move(reason), clock_.wall());
  if (!row) {
    log::error("end of sandbox not recorded", {{"sandbox", live->row.id}, log::Field(row.error())});
    co_return;
  }
  live->row = *row;
  live->over = true;
  forget(live);
  if (row->origin) snapshot_templates_.collect();
  log::info("sandbox is over",
            {{"sandbox", row->id}, {"state", to_string(row->state)}, {"reason", row->reason}});
}

void SandboxService::forget(const LivePtr& live) {
  timeouts_.remove(live->row.id);
  live_.erase(live->row.id);
  live->changed.notify_all();
}

Result<SandboxService::NodeReport> SandboxService::read_report(const Json& value) {
  if (!value.is_object()) return fail(Code::internal, "the node reported something that is no sandbox");
  const JsonObject& object = value.get_object();
  NodeReport report;
  SPACE_TRY(report.id, require_text(object, "id"));
  SPACE_TRY(const std::string state_name, require_text(object, "state"));
  SPACE_TRY(auto reason, text_member(object, "reason"));
  const auto state = state_from(state_name);
  if (!is_sandbox_id(report.id) || !state)
    return fail(Code::internal, "the node reported an id or state that does not exist");
  SPACE_TRY(const auto idle, bool_member(object, "idle"));
  report.state = state_for_clients(*state, idle.value_or(false));
  report.reason = std::move(reason).value_or("");
  SPACE_TRY(report.disk_kept, flag(object, "disk_kept"));
  SPACE_TRY(report.awaits_init, flag(object, "awaits_init"));
  SPACE_TRY(report.schedule, schedule_of(object));
  SPACE_TRY(const auto recovery, text_member(object, "recovery"));
  if (recovery) report.recovery = recovery_policy_from(*recovery);
  SPACE_TRY(report.egress_generation, int_member(object, "egress_generation", 0, INT64_MAX));
  SPACE_TRY(const JsonObject* policy, object_member(object, "policy"));
  if (policy != nullptr) {
    report.policy.emplace();
    SPACE_TRY(report.policy->idle_pause_s, int_member(*policy, "idle_pause_s", 0, INT64_MAX));
    SPACE_TRY(report.policy->hot_keep_s, int_member(*policy, "hot_keep_s", 0, INT64_MAX));
  }
  return report;
}

void SandboxService::tell_what_differs(const LivePtr& live, const NodeReport& report) {
  if (report.policy && is_outdated(*report.policy, live->row.policy))
    spawn(executor_, "tell pause policy", tell_policy(live));
  if (report.schedule && *report.schedule != live->row.schedule)
    spawn(executor_, "tell schedule", tell_schedule(live));
  if (report.recovery && *report.recovery != live->row.recovery)
    spawn(executor_, "tell recovery policy", tell_recovery(live));
  tell_lost_egress(live, report);
}

// A change that got lost on its way back: nobody was told that it is in force.
void SandboxService::tell_lost_egress(const LivePtr& live, const NodeReport& report) {
  if (report.egress_generation && *report.egress_generation != live->row.egress.generation)
    spawn(executor_, "tell egress policy", tell_egress(live, live->row.egress.generation));
}

// One sandbox as the node has it against our row of it.
Task<void> SandboxService::compare(NodeReport report) {
  const auto found = live_.find(report.id);
  if (found == live_.end()) {
    spawn(executor_, "remove orphan", remove_orphan(report.id));
    co_return;
  }
  const LivePtr live = found->second;
  if (is_deletion(live->row.wanted)) {
    spawn(executor_, "delete sandbox", converge_deletion(live));
    co_return;
  }
  if (live->starting_here || live->moving) co_return;  // who asked for it hears of it
  const bool interrupted = half_built(live->row.state) && !serves(report.state);
  if (!interrupted && is_failed(report.state) && report.disk_kept) {
    tell_lost_egress(live, report);
    co_await keep_failed(live, report.reason);
  } else if (!interrupted && recovers(report.state)) {
    tell_what_differs(live, report);
    co_await follow_recovery(live, std::move(report));
  } else if (ended(report.state) || interrupted) {
    co_await bury(live, State::failed, interrupted ? "its start was interrupted" : report.reason);
    spawn(executor_, "remove from node", remove_orphan(report.id));
  } else if (half_built(live->row.state)) {
    if (const auto kept = co_await keep_running(live); !kept)
      log::error("sandbox not adopted", {{"sandbox", report.id}, log::Field(kept.error())});
  } else {
    tell_what_differs(live, report);
    co_await follow_node(live, report.state);
  }
}

// A move that somebody began and did not see the end of is finished. Where nothing was begun, the node is the
// truth: what it has is what is wanted.
Task<void> SandboxService::follow_node(LivePtr live, State observed) {
  const bool unfinished = in_transition(live->row.state);
  if (observed == live->row.state && !unfinished) co_return;
  const auto settled = fulfils(observed);
  if (!settled) {
    if (unfinished) spawn(executor_, "watch sandbox", watch(live, watch_first));
  } else if (unfinished && *settled != live->row.wanted) {
    begin(live, {.to = live->row.wanted, .request = {.timeout_s = live->row.timeout_s}});
  } else {
    log::info("sandbox follows its node",
              {{"sandbox", live->row.id}, {"was", to_string(live->row.state)}, {"is", to_string(observed)}});
    if (const auto kept = co_await record(live, observed, live->row.timeout_s); !kept)
      log::error("state not recorded", {{"sandbox", live->row.id}, log::Field(kept.error())});
  }
}

// What the node has now, unless something begins while it is asked.
Task<void> SandboxService::refresh(std::string id) {
  const auto found = live_.find(id);
  const auto node = nodes_.current();
  if (found == live_.end() || !node) co_return;
  const LivePtr live = found->second;
  const std::uint64_t before = live->moves;
  const std::int64_t egress_before = live->row.egress.generation;
  const auto object = co_await node->call("sandbox/get", {{"id", id}}, Deadline::after(node_list_patience));
  if (!object || live->over || live->moving || live->moves != before) co_return;
  auto report = read_report(*object);
  if (!report) co_return;
  if (live->egress_changing || live->row.egress.generation != egress_before)
    report->egress_generation.reset();
  co_await compare(*std::move(report));
}

// An end is an end. Any other news may be older than what we did since, and is looked up; of a failure, also
// whether something of it is kept.
Task<void> SandboxService::handle_event(NodeReport report) {
  const auto found = live_.find(report.id);
  if (found == live_.end()) co_return;
  if (is_end(report.state)) co_return co_await compare(std::move(report));
  const auto& live = *found->second;
  if (report.state != live.row.state && !live.moving && !live.starting_here)
    co_await refresh(std::move(report.id));
}

Task<Result<void>> SandboxService::reconcile(NodeSessionPtr session) {
  SPACE_CO_TRY(const JsonObject answer,
               co_await session->call("sandbox/list", {}, Deadline::after(node_list_patience)));
  SPACE_CO_TRY(const JsonArray* sandboxes, array_member(answer, "sandboxes"));
  if (sandboxes == nullptr) co_return fail(Code::internal, "the node's list has no sandboxes member");
  std::set<std::string> held;
  std::vector<NodeReport> reports;
  for (const Json& value : *sandboxes) {
    SPACE_CO_TRY(auto report, read_report(value));
    held.insert(report.id);
    reports.push_back(std::move(report));
  }
  std::vector<LivePtr> missing;
  for (const auto& [id, live] : live_)
    if (!held.contains(id) && !live->starting_here && !live->moving) missing.push_back(live);
  for (NodeReport& report : reports) co_await compare(std::move(report));
  for (const LivePtr& live : missing) {
    if (is_deletion(live->row.wanted))
      co_await bury(live, State::deleted, live->row.reason);
    else
      co_await bury(live, State::failed,
                    half_built(live->row.state) ? "its start was interrupted" : "its node lost it");
  }
  co_await snapshot_templates_.reconcile(session);
  log::info("reconciled with the node", {{"held", held.size()}, {"missing", missing.size()}});
  co_return Result<void>();
}

Task<void> SandboxService::follow(NodeSessionPtr session) {
  std::int64_t after = 0;
  while (!session->closed()) {
    const auto answer = co_await session->call("events", {{"after", after}, {"wait_ms", event_wait_ms}},
                                               Deadline::after(Millis(event_wait_ms) + node_list_patience));
    const auto events = answer ? array_member(*answer, "events") : std::unexpected(answer.error());
    if (!events) {
      if (session->closed()) co_return;
      log::warn("events of the node not read", {log::Field(events.error())});
      co_await sleep_for(retry_first);
      continue;
    }
    for (const Json& value : *events ? **events : JsonArray()) {
      const auto report = read_report(value);
      if (report)
        co_await handle_event(*report);
      else
        log::warn("event of the node ignored", {log::Field(report.error())});
    }
    if (const auto gap = bool_member(*answer, "gap"); gap && gap->value_or(false)) {
      if (const auto compared = co_await reconcile(session); !compared)
        log::warn("lost events not made up for", {log::Field(compared.error())});
    }
    if (const auto next = int_member(*answer, "next", 0, INT64_MAX); next && *next)
      after = std::max(after, **next);
  }
}

}  // namespace space::control
