// SandboxService: what is kept of a sandbox, and by which rules. The node does the work.
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis answer_patience{10'000};
constexpr Millis measure_patience{50'000};
constexpr Millis snapshot_patience{55'000};
constexpr Millis remove_patience{50'000};
constexpr Millis diff_patience{190'000};  // a virtual machine boots for it

}  // namespace

Task<Result<JsonObject>> SandboxService::snapshot(std::string team, std::string id, SnapshotRequest request) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  SPACE_CO_CHECK(co_await settle(live));
  JsonObject asked{{"id", id}, {"kind", to_string(request.kind)}, {"pinned", request.pinned}};
  if (!request.name.empty()) asked["name"] = request.name;
  co_return co_await ask_node("sandbox/snapshot", std::move(asked), Deadline::after(snapshot_patience));
}

Task<Result<JsonObject>> SandboxService::snapshots(std::string team, std::string id, bool measure) {
  SPACE_CO_CHECK(co_await kept(team, id));
  JsonObject asked{{"id", id}};
  if (measure) asked["measure"] = true;
  co_return co_await ask_node("sandbox/snapshots", std::move(asked),
                              Deadline::after(measure ? measure_patience : answer_patience));
}

Task<Result<void>> SandboxService::remove_snapshot(std::string team, std::string id, std::int64_t number) {
  SPACE_CO_CHECK(co_await kept(team, id));
  SPACE_CO_CHECK(co_await ask_node("sandbox/snapshot/remove", {{"id", id}, {"number", number}},
                                   Deadline::after(remove_patience)));
  co_return Result<void>();
}

Task<Result<JsonObject>> SandboxService::change_snapshot(std::string team, std::string id,
                                                         std::int64_t number, SnapshotChange change) {
  SPACE_CO_CHECK(co_await kept(team, id));
  JsonObject asked{{"id", id}, {"number", number}};
  if (change.name) asked["name"] = change.name->empty() ? Json(nullptr) : Json(*change.name);
  if (change.pinned) asked["pinned"] = *change.pinned;
  co_return co_await ask_node("sandbox/snapshot/set", std::move(asked), Deadline::after(answer_patience));
}

Task<Result<JsonObject>> SandboxService::history(std::string team, std::string id) {
  SPACE_CO_CHECK(co_await kept(team, id));
  co_return co_await ask_node("sandbox/history", {{"id", id}}, Deadline::after(answer_patience));
}

Task<Result<JsonObject>> SandboxService::diff(std::string team, std::string id, DiffQuery query) {
  SPACE_CO_CHECK(co_await kept(team, id));
  co_return co_await ask_node("sandbox/diff",
                              {{"id", id}, {"from", query.from}, {"to", query.to}, {"limit", query.limit}},
                              Deadline::after(diff_patience));
}

Task<void> SandboxService::tell_schedule(LivePtr live) {
  const auto& schedule = live->row.schedule;
  const Json told = schedule ? Json(to_json(*schedule)) : Json(nullptr);
  if (const auto done = co_await ask_node("sandbox/schedule", {{"id", live->row.id}, {"schedule", told}},
                                          Deadline::after(answer_patience));
      !done)
    log::warn("schedule not on the node yet", {{"sandbox", live->row.id}, log::Field(done.error())});
}

Task<void> SandboxService::tell_recovery(LivePtr live) {
  if (const auto done = co_await ask_node("sandbox/recovery",
                                          {{"id", live->row.id}, {"policy", to_string(live->row.recovery)}},
                                          Deadline::after(answer_patience));
      !done)
    log::warn("recovery policy not on the node yet", {{"sandbox", live->row.id}, log::Field(done.error())});
}

// Written down is promised, as with a pause policy.
Task<Result<store::Sandbox>> SandboxService::set_schedule(std::string team, std::string id,
                                                          std::optional<SnapshotSchedule> schedule) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  SPACE_CO_TRY(live->row, co_await repository_.set_schedule(id, std::move(schedule)));
  co_await tell_schedule(live);
  co_return live->row;
}

Task<Result<store::Sandbox>> SandboxService::set_recovery(std::string team, std::string id,
                                                          RecoveryPolicy policy) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  SPACE_CO_TRY(live->row, co_await repository_.set_recovery(id, policy));
  co_await tell_recovery(live);
  co_return live->row;
}

}  // namespace space::control
