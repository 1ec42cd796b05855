#include "control/sandbox_service.h"

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis timeout_check_max{30'000};  // the wall clock may jump

Error not_found(std::string_view id) {
  return {Code::not_found, fmt::format("Sandbox {} was not found", id)};
}

Error gone(const store::Sandbox& row) {
  if (row.reason.empty()) return not_found(row.id);
  if (is_failed(row.state) && !row.ended_at && !is_deletion(row.wanted))
    return {Code::not_found,
            fmt::format("Sandbox {} was not found: {}. Its disk is kept: POST /v1/sandboxes/{}/recovery "
                        "(`space recovery {} --now`) tries to bring it back",
                        row.id, row.reason, row.id, row.id)};
  return {Code::not_found, fmt::format("Sandbox {} was not found: {}", row.id, row.reason)};
}

bool lives(const store::Sandbox& row) {
  return !is_deletion(row.wanted) && !is_failed(row.state);
}

}  // namespace

SandboxService::SandboxService(const Executor& executor, store::Repository& repository, NodeLink& nodes,
                               const Clock& clock, ServiceLimits limits)
    : executor_(executor),
      repository_(repository),
      nodes_(nodes),
      clock_(clock),
      limits_(limits),
      snapshot_templates_(executor, repository, nodes, clock),
      timeouts_changed_(executor) {}

Task<Result<void>> SandboxService::start() {
  SPACE_CO_TRY(auto rows, co_await repository_.unfinished_sandboxes());
  for (store::Sandbox& row : rows) {
    auto live = std::make_shared<Live>(executor_, std::move(row));
    live_.emplace(live->row.id, live);
    const bool ends = serves(live->row.state) || half_built(live->row.state) || recovers(live->row.state);
    if (ends && !is_deletion(live->row.wanted)) arm(live->row);
  }
  log::info("sandboxes taken over", {{"count", live_.size()}});
  co_return Result<void>();
}

Task<void> SandboxService::run_timeouts() {
  while (true) {
    expire_due();
    Millis pause = timeout_check_max;
    if (const auto next = timeouts_.next()) pause = std::clamp(*next - clock_.wall(), Millis(1), pause);
    co_await timeouts_changed_.wait(Deadline::after(pause));
  }
}

void SandboxService::expire_due() {
  for (const std::string& id : timeouts_.take_due(clock_.wall())) {
    const auto found = live_.find(id);
    if (found == live_.end()) continue;
    if (found->second->row.lifecycle.pause_on_timeout && !half_built(found->second->row.state))
      rest(found->second);
    else
      spawn(executor_, "expire", end(id, fmt::format("its timeout passed at {}", to_rfc3339(clock_.wall()))));
  }
}

void SandboxService::arm(const store::Sandbox& row) {
  timeouts_.set(row.id, row.end_at);
  timeouts_changed_.notify_all();
}

void SandboxService::arm_not_before(const LivePtr& live, Millis pause) {
  timeouts_.set(live->row.id, std::max(live->row.end_at, clock_.wall() + pause));
  timeouts_changed_.notify_all();
}

// Look up and change ----------------------------------------------------------------------------------------

SandboxService::LivePtr SandboxService::find_live(const std::string& team, const std::string& id) const {
  const auto found = live_.find(id);
  if (found == live_.end() || found->second->row.team != team || is_deletion(found->second->row.wanted))
    return nullptr;
  return found->second;
}

Task<Result<SandboxService::LivePtr>> SandboxService::kept(std::string team, std::string id) {
  if (const auto live = find_live(team, id)) co_return live;
  SPACE_CO_TRY(const auto row, co_await repository_.find_sandbox(id));
  if (row && row->team == team) co_return std::unexpected(gone(*row));
  co_return std::unexpected(not_found(id));
}

Task<Result<SandboxService::LivePtr>> SandboxService::running(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  if (is_failed(live->row.state)) co_return std::unexpected(gone(live->row));
  co_return live;
}

Task<Result<store::Sandbox>> SandboxService::find(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  co_return live->row;
}

Task<Result<store::Sandbox>> SandboxService::move_end(LivePtr live, Wall end_at) {
  auto row = co_await repository_.set_end(live->row.id, end_at);
  if (!row && row.error().code == Code::conflict) co_return std::unexpected(not_found(live->row.id));
  if (!row) co_return std::unexpected(row.error());
  live->row = *row;
  arm(live->row);
  co_return *row;
}

Task<Result<store::Sandbox>> SandboxService::set_timeout(std::string team, std::string id,
                                                         std::int64_t timeout_s) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_CHECK(co_await settle(live));
  if (rests(live->row.state))
    co_return fail(Code::conflict, "Sandbox {} is paused and has no end. Connect to it first", id);
  note_call(id);
  const Wall latest = end_after(live->row.started_at, limits_.timeout_max_s);
  const Wall wanted = end_after(clock_.wall(), std::min(timeout_s, limits_.timeout_max_s));
  co_return co_await move_end(live, std::min(wanted, latest));
}

Task<Result<void>> SandboxService::remove(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  const auto row = co_await repository_.want_deleted(id, "it was killed by a request");
  if (!row && row.error().code == Code::conflict) co_return std::unexpected(not_found(id));
  if (!row) co_return std::unexpected(row.error());
  live->row = *row;
  timeouts_.remove(id);
  spawn(executor_, "delete sandbox", converge_deletion(live));
  const Deadline deadline = Deadline::after(limits_.delete_patience);
  while (!live->over && nodes_.current() && !deadline.passed()) co_await live->changed.wait(deadline);
  co_return Result<void>();
}

// The platform's own reasons to delete: no client waits for it.
Task<void> SandboxService::end(std::string id, std::string reason) {
  const auto found = live_.find(id);
  if (found == live_.end() || is_deletion(found->second->row.wanted)) co_return;
  const LivePtr live = found->second;
  const auto row = co_await repository_.want_deleted(id, reason);
  if (!row) {
    if (row.error().code == Code::conflict) co_return;
    log::error("sandbox not ended, retrying", {{"sandbox", id}, log::Field(row.error())});
    timeouts_.set(id, clock_.wall() + std::chrono::seconds(5));
    co_return;
  }
  live->row = *row;
  log::info("sandbox ends", {{"sandbox", id}, {"reason", reason}});
  co_await converge_deletion(live);
}

std::optional<DataPlaneTarget> SandboxService::data_plane_target(const std::string& id) const {
  const store::Sandbox* row = live_row(id);
  if (!row) return std::nullopt;
  const bool awake = serves(row->state) && !live_.at(id)->moving;
  return DataPlaneTarget{row->traffic_token, row->options.mask_request_host, awake};
}

const store::Sandbox* SandboxService::live_row(const std::string& id) const {
  const auto found = live_.find(id);
  return found == live_.end() || !lives(found->second->row) ? nullptr : &found->second->row;
}

const store::Sandbox* SandboxService::live_row_after(const std::string& id) const {
  for (auto it = live_.upper_bound(id); it != live_.end(); ++it)
    if (lives(it->second->row)) return &it->second->row;
  return nullptr;
}

}  // namespace space::control
