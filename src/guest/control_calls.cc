#include "guest/control_calls.h"

#include "base/json_text.h"
#include "base/log.h"
#include "guest/activity_json.h"
#include "guest/detached_work.h"
#include "guest/disk_diff_call.h"
#include "guest/guest_stats.h"
#include "guest/wake_call.h"
#include "guest/warm_call.h"

namespace space::guest {

namespace {

constexpr std::string_view prefix = "/control/";
// A guest silent for a second is captured as it is: of that, the flush may take half.
constexpr Millis quiesce_limit{900};
constexpr Millis flush_limit{500};
// Everybody who writes waits while the disk is frozen.
constexpr std::int64_t disk_hold_ms_max = 10'000;
constexpr Millis disk_thaw_limit{1'000};
constexpr Millis diff_reserve{5'000};

int status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return 400;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::unavailable:
      return 503;
    case Code::deadline:
      return 504;
    default:
      return 500;
  }
}

}  // namespace

ControlCalls::ControlCalls(const Executor& executor, GuestState& state, ProcessTable& table,
                           ControlSurroundings surroundings)
    : state_(state),
      table_(table),
      around_(std::move(surroundings)),
      upgrade_(state, table, around_),
      woken_(executor) {}

Task<CallResponse> ControlCalls::handle(CallRequest request) {
  const auto answer = [](const Error& error) {
    std::string body = R"({"message":)";
    append_json_string(body, error.message);
    return CallResponse{.status = status_of(error.code), .body = body + "}"};
  };
  if (request.method != "POST" || !request.path.starts_with(prefix))
    co_return answer({Code::not_found, "no such control call"});
  auto message = request.body.empty() ? JsonObject() : parse_json_object(request.body, "the request");
  if (!message) co_return answer(message.error());
  const auto result = co_await dispatch(request.path.substr(prefix.size()), *std::move(message));
  if (!result) co_return answer(result.error());
  co_return CallResponse{.status = 200, .body = result->empty() ? "{}" : to_text(*result)};
}

void ControlCalls::take_sync(const channel::Sync& sync) {
  if (const auto added = around_.add_entropy(sync.entropy); !added)
    log::error("entropy of the host not added", {log::Field(added.error())});
  if (const auto stepped = around_.set_wall_clock(sync.wall_clock_us); !stepped)
    log::error("clock of the host not taken", {log::Field(stepped.error())});
}

Task<Result<JsonObject>> ControlCalls::dispatch(std::string name, JsonObject message) {
  if (name == "ping") co_return JsonObject();
  if (name == "init") co_return init(message);
  if (name == "clock") co_return clock(message);
  if (name == "entropy") co_return entropy(message);
  if (name == "thaw") co_return thaw();
  if (name == "stats") co_return stats();
  if (name == "activity") co_return activity();
  if (name == "shutdown") co_return shutdown(message);
  co_return co_await dispatch_slow(std::move(name), std::move(message));
}

Task<Result<JsonObject>> ControlCalls::dispatch_slow(std::string name, JsonObject message) {
  if (name == "wake") co_return co_await wake(std::move(message));
  if (name == "quiesce") co_return co_await quiesce(std::move(message));
  if (name == "freeze_disk") co_return co_await freeze_disk(std::move(message));
  if (name == "thaw_disk") co_return co_await thaw_disk();
  if (name == "diff") co_return co_await diff(std::move(message));
  if (name == "warm") co_return co_await warm(std::move(message));
  if (name == "upgrade") co_return co_await upgrade(std::move(message));
  if (name == "identity") co_return co_await identity(std::move(message));
  co_return fail(Code::not_found, "no control call '{}'", name);
}

// Wakes run one after the other: one whose host went away may still run its hooks when the next comes.
Task<JsonObject> ControlCalls::run_wake(WakeMessage message) {
  while (waking_) co_await woken_.wait();
  waking_ = true;
  struct Release {
    ControlCalls* calls;
    ~Release() {
      calls->waking_ = false;
      calls->woken_.notify_all();
    }
  } release{this};
  WakeCall call(state_, table_, around_);
  co_return co_await call.run(std::move(message));
}

Task<Result<JsonObject>> ControlCalls::wake(JsonObject message) {
  SPACE_CO_TRY(auto parsed, parse_wake(message));
  SPACE_CO_CHECK(co_await thaw_disk());  // its steps write
  co_return co_await run_wake(std::move(parsed));
}

Task<Result<JsonObject>> ControlCalls::identity(JsonObject message) {
  WakeMessage step;
  SPACE_CO_TRY(step.identity, parse_identity(message));
  const JsonObject answer = co_await run_wake(std::move(step));
  if (const auto* failed = answer.if_contains("failed"))
    co_return fail(Code::internal, "{}", to_text(*failed));
  co_return JsonObject();
}

Task<Result<JsonObject>> ControlCalls::warm(JsonObject message) {
  SPACE_CO_TRY(const auto everything, bool_member(message, "everything"));
  if (state_.frozen) co_return fail(Code::conflict, "thaw it first: nothing starts in a frozen sandbox");
  co_return co_await run_warm(state_, around_, everything.value_or(false));
}

// Not beside a wake: its hooks would go on without anybody who knows them.
Task<Result<JsonObject>> ControlCalls::upgrade(JsonObject message) {
  SPACE_CO_TRY(auto piece, parse_upgrade(message));
  while (waking_) co_await woken_.wait();
  co_return co_await upgrade_.take(std::move(piece));
}

Result<JsonObject> ControlCalls::init(const JsonObject& message) {
  SPACE_TRY(auto parsed, parse_init(message));
  take_init(state_, std::move(parsed));
  around_.settings_changed();
  return JsonObject();
}

Result<JsonObject> ControlCalls::clock(const JsonObject& message) {
  SPACE_TRY(const std::int64_t wanted, require_int(message, "wall_clock_us", 0, INT64_MAX));
  SPACE_TRY(const std::int64_t stepped, around_.set_wall_clock(wanted));
  return JsonObject{{"stepped_us", stepped}};
}

Result<JsonObject> ControlCalls::entropy(const JsonObject& message) {
  SPACE_TRY(const Bytes bytes, parse_entropy(message));
  SPACE_CHECK(around_.add_entropy(bytes));
  return JsonObject();
}

// Flushes before it freezes: a file system served by a frozen program (FUSE) would never answer the flush. A
// flush that takes too long goes on by itself. A thaw that comes meanwhile has the last word. A disk that is
// frozen is thawed first: nobody would thaw it in a copy of this memory but the thread that counts its time.
Task<Result<JsonObject>> ControlCalls::quiesce(JsonObject message) {
  SPACE_CO_TRY(const auto flush, bool_member(message, "sync"));
  const Deadline deadline = Deadline::after(quiesce_limit);
  const Deadline flush_deadline = Deadline::after(flush_limit);
  const std::uint64_t turn = ++state_.quiesce_turn;
  const auto overtaken = [this, turn] { return state_.quiesce_turn != turn; };
  JsonObject answer{{"frozen", false}};
  ++quiescing_;
  struct Release {
    int* count;
    ~Release() { --*count; }
  } release{&quiescing_};
  if (around_.disk != nullptr) {
    (void)co_await around_.disk->thaw(flush_deadline);
    if (around_.disk->busy()) co_return answer;
  }
  if (flush.value_or(false)) {
    if (around_.save_settings) (void)co_await around_.save_settings(flush_deadline);
    const auto synced = co_await detached_work(around_.flush, flush_deadline);
    answer["synced"] = synced.has_value();
  }
  if (around_.cgroups == nullptr || overtaken()) co_return answer;
  state_.frozen = true;
  const auto frozen = co_await around_.cgroups->freeze(deadline, overtaken);
  if (!frozen) {
    log::warn("the user cgroup was not frozen", {log::Field(frozen.error())});
    if (!overtaken()) SPACE_CO_CHECK(thaw());
  }
  answer["frozen"] = frozen.has_value();
  co_return answer;
}

Result<JsonObject> ControlCalls::thaw() {
  SPACE_CHECK(thaw_users(state_, around_.cgroups));
  return JsonObject();
}

// Not in a guest that stands still for its memory's sake: the copy would have a frozen disk.
Task<Result<JsonObject>> ControlCalls::freeze_disk(JsonObject message) {
  SPACE_CO_TRY(const std::int64_t limit_ms, require_int(message, "limit_ms", 1, disk_hold_ms_max));
  if (quiescing_ > 0 || state_.frozen)
    co_return fail(Code::conflict, "the guest is quiesced: its disk is not frozen besides");
  if (upgrade_.replacing()) co_return fail(Code::conflict, "the daemon is being replaced");
  if (around_.disk == nullptr) co_return JsonObject{{"frozen", false}};
  const auto frozen = co_await around_.disk->freeze(Millis(limit_ms));
  if (!frozen) log::warn("the disk was not frozen", {log::Field(frozen.error())});
  co_return JsonObject{{"frozen", frozen.has_value()}};
}

Task<Result<JsonObject>> ControlCalls::thaw_disk() {
  bool held = false;
  if (around_.disk != nullptr) held = co_await around_.disk->thaw(Deadline::after(disk_thaw_limit));
  co_return JsonObject{{"held", held}};
}

Task<Result<JsonObject>> ControlCalls::diff(JsonObject message) {
  SPACE_CO_TRY(const TreeDiffLimits limits, parse_diff(message));
  const Deadline deadline = Deadline::at(limits.until.when() + diff_reserve);
  auto found = co_await detached_work([limits] { return diff_disks(limits); }, deadline);
  if (!found) co_return fail(Code::deadline, "the disks do not answer");
  SPACE_CO_TRY(const TreeDiff diff, std::move(*found));
  co_return to_json(diff);
}

Result<JsonObject> ControlCalls::stats() const {
  SPACE_TRY(const GuestStats stats, read_guest_stats());
  SPACE_TRY(JsonObject activity, this->activity());
  std::uint64_t tasks = 0;
  if (around_.cgroups != nullptr) tasks = around_.cgroups->tasks().value_or(0);
  return JsonObject{{"cpu_count", stats.cpu_count},
                    {"cpu_used_us", stats.cpu_used_us},
                    {"mem_total", stats.memory_total},
                    {"mem_used", stats.memory_used},
                    {"mem_cache", stats.memory_cache},
                    {"disk_total", stats.disk_total},
                    {"disk_used", stats.disk_used},
                    {"processes", table_.running().size()},
                    {"tasks", tasks},
                    {"activity", std::move(activity)}};
}

Result<JsonObject> ControlCalls::activity() const {
  std::uint64_t cpu_used_us = 0;
  if (around_.cgroups != nullptr) {
    SPACE_TRY(cpu_used_us, around_.cgroups->cpu_used_us());
  }
  return activity_json(state_, cpu_used_us, around_.open_tunnels());
}

Result<JsonObject> ControlCalls::shutdown(const JsonObject& message) {
  SPACE_TRY(const auto reboot, bool_member(message, "reboot"));
  around_.shut_down(reboot.value_or(false));
  return JsonObject();
}

}  // namespace space::guest
