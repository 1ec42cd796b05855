#include <fmt/ranges.h>

#include <cstdlib>

#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/egress_text.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/process_client.h"
#include "cli/sandbox_lookup.h"
#include "cli/schedule_text.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

JsonObject create_request(const CreateOptions& options) {
  JsonObject request;
  request["templateID"] = options.template_name;
  request["timeout"] = life_json(options.life);
  if (options.on_timeout == "pause") request["autoPause"] = true;
  if (options.auto_resume) request["autoResume"] = JsonObject{{"enabled", true}};
  if (options.idle_pause_s) request["pausePolicy"] = JsonObject{{"idlePauseSeconds", *options.idle_pause_s}};
  if (JsonObject egress = egress_policy_of(options.egress); !egress.empty())
    request["egress"] = std::move(egress);
  JsonObject metadata;
  for (const auto& [name, value] : options.metadata) metadata[name] = value;
  request["metadata"] = std::move(metadata);
  JsonObject env;
  for (const auto& [name, value] : options.env) env[name] = value;
  request["envVars"] = std::move(env);
  return request;
}

Task<Result<JsonObject>> create_sandbox(const ApiClient& api, const CreateOptions& options) {
  SPACE_CO_TRY(Answer answer, co_await with_word(api.call("POST", "/v2/sandboxes", create_request(options)),
                                                 "creating a sandbox"));
  if (!answer.body.is_object()) co_return fail(Code::internal, "the API sent no sandbox");
  co_return std::move(answer.body.get_object());
}

std::string text_or(const JsonObject& object, std::string_view key, std::string fallback) {
  auto value = text_member(object, key);
  return value && *value ? **std::move(value) : std::move(fallback);
}

Task<Result<int>> run(const ApiClient& api, const RunOptions& options) {
  SPACE_CO_TRY(const JsonObject sandbox, co_await create_sandbox(api, options.create));
  const std::string id = text_or(sandbox, "sandboxID", "");
  Target target{.sandbox_id = id, .access_token = SecretText(text_or(sandbox, "envdAccessToken", ""))};
  auto code = co_await run_program(api, std::move(target), program_of(options.exec));
  if (options.keep) {
    note(fmt::format("kept: {0}   (space exec {0} -- CMD, space kill {0})", id));
    co_return code;
  }
  auto killed = co_await api.call("DELETE", "/sandboxes/" + id, std::nullopt);
  if (!killed) note(fmt::format("sandbox {} could not be killed: {}", id, killed.error().message));
  co_return code;
}

// An id, or a beginning of one.
Task<Result<Answer>> call_sandbox(const ApiClient& api, std::string method, std::string wanted) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  const std::string path = method == "GET" ? "/v1/sandboxes/" : "/sandboxes/";
  auto answer = co_await api.call(std::move(method), path + id, std::nullopt);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  co_return answer;
}

// A member of a sandbox for people.
std::string shown(std::string_view key, const Json& value) {
  if (value.is_string()) return std::string(value.get_string());
  if (!value.is_object()) return to_text(value);
  const JsonObject& object = value.get_object();
  if (key == "schedule") return fmt::format("{}", fmt::join(schedule_lines(value), "; "));
  if (key == "recovered") return recovered_text(object);
  if (key == "origin" || key == "restoredFrom")
    return fmt::format("snapshot {} of {}", number_at(object, "number"), text_at(object, "sandboxID"));
  return to_text(value);
}

std::string number_or(const JsonObject& object, std::string_view key) {
  const auto value = int_member(object, key, 0, INT64_MAX);
  return value && *value ? std::to_string(**value) : "?";
}

}  // namespace

Json life_json(const std::string& life) {
  if (life == "never") return Json(life);
  return Json(std::strtoll(life.c_str(), nullptr, 10));
}

int command_create(const CommonOptions& common, const CreateOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto sandbox = run_loop(create_sandbox(*api, options));
  if (!sandbox) return report(sandbox.error());
  if (common.json) {
    print_json(*sandbox);
  } else {
    print_line(text_or(*sandbox, "sandboxID", ""));
  }
  return 0;
}

int command_run(const CommonOptions& common, const RunOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto code = run_loop(run(*api, options));
  return code ? *code : report(code.error());
}

int command_list(const CommonOptions& common) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto sandboxes = run_loop(list_sandboxes(*api));
  if (!sandboxes) return report(sandboxes.error());
  if (common.json) {
    print_json(*sandboxes);
    return 0;
  }
  std::vector<Row> rows;
  for (const Json& item : *sandboxes) {
    if (!item.is_object()) continue;
    const JsonObject& sandbox = item.get_object();
    rows.push_back({text_or(sandbox, "sandboxID", "?"),
                    text_or(sandbox, "stateDetail", text_or(sandbox, "state", "?")),
                    text_or(sandbox, "alias", text_or(sandbox, "templateID", "?")),
                    number_or(sandbox, "cpuCount"), number_or(sandbox, "memoryMB"),
                    age(text_or(sandbox, "startedAt", "")), text_or(sandbox, "endAt", "?")});
  }
  print_table({"SANDBOX", "STATE", "TEMPLATE", "CPU", "MIB", "AGE", "ENDS"}, rows);
  return 0;
}

int command_info(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto answer = run_loop(call_sandbox(*api, "GET", sandbox));
  if (!answer) return report(answer.error());
  if (common.json || !answer->body.is_object()) {
    print_json(answer->body);
    return 0;
  }
  std::vector<Row> rows;
  for (const auto& [key, value] : answer->body.get_object()) {
    if (key == "envdAccessToken" || value.is_null()) continue;  // shown to machines only
    rows.push_back({std::string(key), shown(key, value)});
  }
  print_table({"FIELD", "VALUE"}, rows);
  return 0;
}

int command_kill(const CommonOptions& common, const std::vector<std::string>& sandboxes) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  int worst = 0;
  for (const std::string& sandbox : sandboxes) {
    const auto answer = run_loop(call_sandbox(*api, "DELETE", sandbox));
    if (answer) {
      if (!common.json) print_line("killed " + sandbox);
    } else {
      worst = report(answer.error());
    }
  }
  return worst;
}

}  // namespace space::cli
