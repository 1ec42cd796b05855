#include "guest/control_calls.h"

#include <unistd.h>

#include "base/bytes.h"
#include "base/json_text.h"
#include "base/log.h"
#include "guest/activity_json.h"
#include "guest/clock_entropy.h"
#include "guest/guest_stats.h"
#include "guest/identity.h"

namespace space::guest {

namespace {

constexpr std::string_view prefix = "/control/";
constexpr Millis freeze_limit{1'000};  // a guest silent for longer is captured as it is

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

Result<Environment> text_map(const JsonObject& object) {
  Environment result;
  for (const auto& [name, value] : object) {
    if (!value.is_string()) return fail(Code::invalid_argument, "'env' must hold strings");
    result.insert_or_assign(std::string(name), std::string(value.get_string()));
  }
  return result;
}

}  // namespace

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

Task<Result<JsonObject>> ControlCalls::dispatch(std::string name, JsonObject message) {
  if (name == "ping") co_return JsonObject();
  if (name == "identity") co_return identity(message);
  if (name == "init") co_return init(message);
  if (name == "clock") co_return clock(message);
  if (name == "entropy") co_return entropy(message);
  if (name == "quiesce") co_return co_await quiesce(std::move(message));
  if (name == "thaw") co_return thaw();
  if (name == "stats") co_return stats();
  if (name == "activity") co_return activity();
  if (name == "shutdown") co_return shutdown(message);
  co_return fail(Code::not_found, "no control call '{}'", name);
}

Result<JsonObject> ControlCalls::identity(const JsonObject& message) {
  SPACE_TRY(const std::string sandbox_id, require_text(message, "sandbox_id"));
  SPACE_TRY(const std::string host_name, require_text(message, "hostname"));
  SPACE_CHECK(take_identity(sandbox_id, host_name));
  return JsonObject();
}

// All of it is checked before any of it takes effect.
Result<JsonObject> ControlCalls::init(const JsonObject& message) {
  SPACE_TRY(auto token, text_member(message, "access_token"));
  SPACE_TRY(auto user, text_member(message, "default_user"));
  SPACE_TRY(auto workdir, text_member(message, "default_workdir"));
  SPACE_TRY(const JsonObject* variables, object_member(message, "env"));
  if (variables != nullptr) {
    SPACE_TRY(state_.environment, text_map(*variables));
  }
  if (token) state_.access_token = SecretText(*std::move(token));
  if (user) state_.default_user = *std::move(user);
  if (workdir) state_.default_workdir = *std::move(workdir);
  return JsonObject();
}

Result<JsonObject> ControlCalls::clock(const JsonObject& message) {
  SPACE_TRY(const std::int64_t wanted, require_int(message, "wall_clock_us", 0, INT64_MAX));
  SPACE_TRY(const std::int64_t stepped, set_wall_clock(wanted));
  return JsonObject{{"stepped_us", stepped}};
}

Result<JsonObject> ControlCalls::entropy(const JsonObject& message) {
  SPACE_TRY(const std::string text, require_text(message, "entropy"));
  const auto bytes = from_base64(text);
  if (!bytes) return fail(Code::invalid_argument, "'entropy' is not base64");
  SPACE_CHECK(add_entropy(*bytes));
  return JsonObject();
}

// Flushes before it freezes: a file system served by a frozen program (FUSE) would never answer the flush.
Task<Result<JsonObject>> ControlCalls::quiesce(JsonObject message) {
  SPACE_CO_TRY(const auto flush, bool_member(message, "sync"));
  if (around_.cgroups == nullptr) co_return JsonObject{{"frozen", false}};
  if (flush.value_or(false)) co_await run_blocking([] { ::sync(); });
  state_.frozen = true;
  const auto frozen = co_await around_.cgroups->freeze(Deadline::after(freeze_limit));
  if (!frozen) {
    log::warn("the user cgroup was not frozen", {log::Field(frozen.error())});
    SPACE_CO_CHECK(thaw());
  }
  co_return JsonObject{{"frozen", frozen.has_value()}};
}

Result<JsonObject> ControlCalls::thaw() {
  if (around_.cgroups != nullptr) SPACE_CHECK(around_.cgroups->thaw());
  state_.frozen = false;
  state_.thawed.notify_all();
  return JsonObject();
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
