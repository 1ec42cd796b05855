#include "guest/wake_call.h"

#include "base/log.h"
#include "base/path_text.h"
#include "guest/detached_work.h"
#include "guest/host_keys.h"
#include "guest/identity.h"

namespace space::guest {

namespace {

// For files that a file system of a frozen program may hold; a crowded host is slow without that.
constexpr Millis file_time{10'000};

template <class T>
Task<Result<T>> within_file_time(std::function<Result<T>()> work) {
  auto result = co_await detached_work(std::move(work), Deadline::after(file_time));
  if (!result) co_return fail(Code::deadline, "the file system does not answer");
  co_return *std::move(result);
}

}  // namespace

Result<void> thaw_users(GuestState& state, Cgroups* cgroups) {
  ++state.quiesce_turn;
  if (cgroups != nullptr) SPACE_CHECK(cgroups->thaw());
  state.frozen = false;
  state.thawed.notify_all();
  return {};
}

Task<JsonObject> WakeCall::run(WakeMessage message) {
  if (message.entropy) note("entropy", around_.add_entropy(*message.entropy));
  if (message.wall_clock_us) step_clock(*message.wall_clock_us);
  if (message.identity) co_await step_identity(*std::move(message.identity));
  if (message.init) {
    take_init(state_, *std::move(message.init));
    around_.settings_changed();
  }
  if (message.generation || new_memory_) co_await step_generation(message.generation);
  if (message.hooks) co_await step_hooks(message.generation.value_or(0));
  if (message.thaw) note("thaw", thaw_users(state_, around_.cgroups));
  answer_["daemon_version"] = state_.daemon_version;
  if (!failed_.empty()) answer_["failed"] = std::move(failed_);
  co_return std::move(answer_);
}

void WakeCall::note(std::string_view step, const Result<void>& result) {
  if (result) return;
  log::warn("a step of wake failed", {{"step", step}, log::Field(result.error())});
  failed_.push_back(JsonObject{{"step", step}, {"message", result.error().message}});
}

void WakeCall::step_clock(std::int64_t wall_clock_us) {
  const auto stepped = around_.set_wall_clock(wall_clock_us);
  if (stepped) {
    answer_["stepped_us"] = *stepped;
  } else {
    note("clock", std::unexpected(stepped.error()));
  }
}

Task<void> WakeCall::step_identity(IdentityMessage message) {
  const auto news = co_await within_file_time<IdentityNews>(
      [message] { return take_identity(message.sandbox_id, message.host_name); });
  if (!news) {
    note("identity", std::unexpected(news.error()));
    co_return;
  }
  new_memory_ = news->memory;
  if (news->disk) note("host keys", co_await renew_host_keys(hook_surroundings()));
}

Task<void> WakeCall::step_generation(std::optional<std::uint64_t> generation) {
  note("generation", co_await within_file_time<void>([generation] {
         return generation ? set_generation(*generation) : next_generation();
       }));
}

Task<void> WakeCall::step_hooks(std::uint64_t generation) {
  JsonArray hooks;
  for (const HookResult& hook : co_await run_hooks(hook_surroundings(), around_.hooks_folder, generation))
    hooks.push_back(JsonObject{{"name", text_of_path(hook.name)}, {"status", hook.status}});
  answer_["hooks"] = std::move(hooks);
}

HookSurroundings WakeCall::hook_surroundings() const {
  return {.table = table_,
          .cgroups = around_.cgroups,
          .path = state_.path,
          .reset_oom_score = state_.reset_oom_score};
}

}  // namespace space::guest
