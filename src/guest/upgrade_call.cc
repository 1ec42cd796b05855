#include "guest/upgrade_call.h"

#include <unistd.h>

#include "base/log.h"
#include "guest/helper_program.h"

namespace space::guest {

namespace {

constexpr Millis trial_time{5'000};
constexpr Millis answer_time{50};    // for the host to hear that all is here
constexpr Millis start_time{2'000};  // for programs that are just being started
constexpr Millis settings_time{500};
constexpr Millis goodbye_time{300};  // for the host to end the session
constexpr Millis disk_time{15'000};  // for a freeze under way to end: longer than any may last

std::int64_t to_ms(Monotonic time) {
  return std::chrono::ceil<Millis>(time.time_since_epoch()).count();
}

}  // namespace

Handover hand_over(GuestState& state, ProcessTable& table) {
  Handover result;
  result.access_token = state.access_token.clone();
  result.environment = state.environment;
  result.default_user = state.default_user;
  result.default_workdir = state.default_workdir;
  result.path = state.path;
  result.frozen = state.frozen;
  for (const auto& [name, end] : state.leases.held(system_clock().monotonic()))
    result.lease_ends_ms.emplace(name, to_ms(end));
  if (const auto at = state.wake_up.at(system_clock().wall()))
    result.wake_at_ms = at->time_since_epoch().count();
  table.hand_over(result);
  return result;
}

void take_over(Handover handover, GuestState& state, ProcessTable& table) {
  state.access_token = std::move(handover.access_token);
  state.environment = std::move(handover.environment);
  state.default_user = std::move(handover.default_user);
  state.default_workdir = std::move(handover.default_workdir);
  state.path = std::move(handover.path);
  state.frozen = handover.frozen;
  for (const auto& [name, end] : handover.lease_ends_ms) state.leases.take_over(name, Monotonic(Millis(end)));
  if (handover.wake_at_ms) (void)state.wake_up.set(Wall(Millis(*handover.wake_at_ms)), system_clock().wall());
  table.take_over(handover);
}

Task<Result<JsonObject>> UpgradeCall::take(UpgradePiece piece) {
  SPACE_CO_TRY(const std::size_t received, upgrade_.take(piece));
  if (upgrade_.complete() && !replacing_) {
    replacing_ = true;
    if (auto tried = co_await try_program(); !tried) {
      upgrade_ = Upgrade();
      replacing_ = false;
      co_return std::unexpected(std::move(tried).error());
    }
    spawn(co_await boost::asio::this_coro::executor, "replace the daemon", replace_soon());
  }
  co_return JsonObject{{"received", received}};
}

// Process 1 that ends takes the machine with it: a program that cannot run here must not get so far.
Task<Result<void>> UpgradeCall::try_program() {
  HelperProgram program{
      .command = fmt::format("/proc/{}/fd/{}", ::getpid(), upgrade_.program()),
      .arguments = {"--version"},
      .environment = {},
      .user = superuser(),
      .context = {.path = state_.path,
                  .environment = {},
                  .default_workdir = "/",
                  .cgroup_fd = around_.cgroups != nullptr ? around_.cgroups->hooks_folder() : -1,
                  .reset_oom_score = state_.reset_oom_score},
      .time_max = trial_time};
  program.user.uid = ::geteuid();
  const HelperEnd end = co_await run_helper(table_, std::move(program));
  if (!end.succeeded)
    co_return fail(Code::invalid_argument, "the new program does not run here: {}", end.status);
  co_return Result<void>();
}

Task<void> UpgradeCall::replace_soon() {
  co_await sleep_for(answer_time);
  for (const Deadline deadline = Deadline::after(start_time); table_.is_starting() && !deadline.passed();)
    co_await sleep_for(Millis(1));
  if (around_.save_settings) (void)co_await around_.save_settings(Deadline::after(settings_time));
  if (around_.hang_up) co_await around_.hang_up(Deadline::after(goodbye_time));
  Error why{Code::deadline, "the disk is frozen"};  // with this process its thaw would be gone
  if (around_.disk != nullptr) (void)co_await around_.disk->thaw(Deadline::after(disk_time));
  if (around_.disk == nullptr || !around_.disk->busy()) {
    log::info("the daemon is replaced", {{"programs", table_.running().size()}});
    why = exec_program(upgrade_.program(), around_.arguments, hand_over(state_, table_));
  }
  log::error("the daemon was not replaced", {log::Field(why)});
  upgrade_ = Upgrade();
  replacing_ = false;
  if (around_.go_on) around_.go_on();
}

}  // namespace space::guest
