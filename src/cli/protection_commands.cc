// space schedule, recovery: what keeps a sandbox when nobody looks.
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/input_file.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"
#include "cli/schedule_text.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

constexpr std::size_t schedule_file_bytes = 64 * 1024;

Task<Result<JsonObject>> call_sandbox(const ApiClient& api, std::string wanted, std::string method,
                                      std::string route, std::optional<JsonObject> body) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await with_word(
      api.call(std::move(method), "/v1/sandboxes/" + id + route, std::move(body)), "asking for " + id);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  if (!answer->body.is_object()) co_return fail(Code::internal, "the API's answer is no object");
  co_return std::move(answer->body.get_object());
}

bool has_flags(const ScheduleOptions& options) {
  return !(options.disk_every + options.disk_keep + options.full_every + options.full_keep + options.quota)
              .empty();
}

// What is wanted; null: nothing, it is only shown. An object has the member the API wants.
Result<std::optional<JsonObject>> wanted_schedule(const ScheduleOptions& options) {
  const int ways =
      (options.word.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) + (has_flags(options) ? 1 : 0);
  if (ways > 1)
    return fail(Code::invalid_argument,
                "a word (default, off), --file or flags: one of them says the schedule");
  if (ways == 0) return std::nullopt;
  if (!options.word.empty()) return JsonObject{{"schedule", options.word}};
  if (options.file.empty()) {
    SPACE_TRY(JsonObject schedule, schedule_of(options));
    return JsonObject{{"schedule", std::move(schedule)}};
  }
  SPACE_TRY(const std::string text, read_input(options.file, schedule_file_bytes));
  SPACE_TRY(JsonObject object, parse_json_object(text, options.file));
  // What 'space schedule ID --json' prints can be given back.
  if (object.contains("schedule")) return object;
  return JsonObject{{"schedule", std::move(object)}};
}

void print_recovery(const JsonObject& shown) {
  const std::string policy = text_at(shown, "policy");
  print_line(fmt::format("policy     {}: when its virtual machine ends unasked, {}", printable(policy),
                         policy_text(policy)));
  if (const JsonObject* recovered = object_at(shown, "recovered"))
    print_line("recovered  " + printable(recovered_text(*recovered)));
  if (const std::string reason = text_at(shown, "reason", ""); !reason.empty())
    print_line(fmt::format("state      {}: {}", printable(text_at(shown, "state")), printable(reason)));
}

}  // namespace

int command_schedule(const CommonOptions& common, const ScheduleOptions& options) {
  auto wanted = wanted_schedule(options);
  if (!wanted) return report(wanted.error());
  const auto api = make_client(common);
  if (!api) return report(api.error());
  std::string method = *wanted ? "PUT" : "GET";
  const auto shown =
      run_loop(call_sandbox(*api, options.sandbox, std::move(method), "/schedule", *std::move(wanted)));
  if (!shown) return report(shown.error());
  if (common.json) {
    print_json(*shown);
    return 0;
  }
  const Json* schedule = shown->if_contains("schedule");
  for (const std::string& line : schedule_lines(schedule != nullptr ? *schedule : Json())) print_line(line);
  return 0;
}

int command_recovery(const CommonOptions& common, const RecoveryOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  Result<JsonObject> shown = JsonObject();
  if (!options.policy.empty())
    shown = run_loop(
        call_sandbox(*api, options.sandbox, "PUT", "/recovery", JsonObject{{"policy", options.policy}}));
  if (shown && options.now)
    shown = run_loop(call_sandbox(*api, options.sandbox, "POST", "/recovery", std::nullopt));
  if (shown && options.policy.empty() && !options.now)
    shown = run_loop(call_sandbox(*api, options.sandbox, "GET", "/recovery", std::nullopt));
  if (!shown) return report(shown.error());
  if (common.json)
    print_json(*shown);
  else
    print_recovery(*shown);
  return 0;
}

}  // namespace space::cli
