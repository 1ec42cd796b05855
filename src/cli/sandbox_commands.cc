#include <unistd.h>

#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/process_client.h"

namespace space::cli {

namespace {

Result<ApiClient> make_client(const CommonOptions& common) {
  SPACE_TRY(Settings settings, load_settings(common.api_url, common.api_key));
  return ApiClient(std::move(settings));
}

int report(const Error& error) {
  print_error(error);
  return exit_code_of(error);
}

JsonObject create_request(const CreateOptions& options) {
  JsonObject request;
  request["templateID"] = options.template_name;
  request["timeout"] = options.timeout_seconds;
  JsonObject metadata;
  for (const auto& [name, value] : options.metadata) metadata[name] = value;
  request["metadata"] = std::move(metadata);
  JsonObject env;
  for (const auto& [name, value] : options.env) env[name] = value;
  request["envVars"] = std::move(env);
  return request;
}

Task<Result<JsonObject>> create_sandbox(const ApiClient& api, const CreateOptions& options) {
  SPACE_CO_TRY(Answer answer, co_await api.call("POST", "/v2/sandboxes", create_request(options)));
  if (!answer.body.is_object()) co_return fail(Code::internal, "the API sent no sandbox");
  co_return std::move(answer.body.get_object());
}

ProgramSpec program_of(const ExecOptions& options) {
  ProgramSpec program;
  program.argv = options.argv;
  program.env = options.env;
  program.cwd = options.cwd;
  program.user = options.user;
  program.terminal = options.terminal;
  program.forward_stdin = !options.terminal && ::isatty(STDIN_FILENO) == 0;
  program.timeout = std::chrono::seconds(options.timeout_seconds);
  if (program.terminal) {
    const char* term = ::getenv("TERM");
    program.env.try_emplace("TERM", term == nullptr ? "xterm-256color" : term);
    program.env.try_emplace("LANG", "C.UTF-8");
    program.env.try_emplace("LC_ALL", "C.UTF-8");
  }
  return program;
}

std::string text_or(const JsonObject& object, std::string_view key, std::string fallback) {
  auto value = text_member(object, key);
  return value && *value ? **std::move(value) : std::move(fallback);
}

Task<Result<int>> run(const ApiClient& api, const RunOptions& options) {
  SPACE_CO_TRY(const JsonObject sandbox, co_await create_sandbox(api, options.create));
  const Target target{text_or(sandbox, "sandboxID", ""), SecretText(text_or(sandbox, "envdAccessToken", ""))};
  auto code = co_await run_program(api, target, program_of(options.exec));
  if (options.keep) {
    note(fmt::format("kept: {0}   (space exec {0} -- CMD, space kill {0})", target.sandbox_id));
    co_return code;
  }
  auto killed = co_await api.call("DELETE", "/sandboxes/" + target.sandbox_id, std::nullopt);
  if (!killed)
    note(fmt::format("sandbox {} could not be killed: {}", target.sandbox_id, killed.error().message));
  co_return code;
}

Task<Result<int>> exec(const ApiClient& api, const ExecOptions& options) {
  SPACE_CO_TRY(const Target target, co_await api.connect_sandbox(options.sandbox));
  co_return co_await run_program(api, target, program_of(options));
}

Task<Result<JsonArray>> list_all(const ApiClient& api) {
  JsonArray all;
  std::string token;
  do {
    std::string path = "/v2/sandboxes?limit=100";
    if (!token.empty()) path += "&nextToken=" + http::percent_encode(token);
    SPACE_CO_TRY(Answer answer, co_await api.call("GET", std::move(path), std::nullopt));
    if (!answer.body.is_array()) co_return fail(Code::internal, "the API sent no list");
    for (Json& item : answer.body.get_array()) all.push_back(std::move(item));
    token = answer.next_token;
  } while (!token.empty());
  co_return all;
}

std::string number_or(const JsonObject& object, std::string_view key) {
  const auto value = int_member(object, key, 0, INT64_MAX);
  return value && *value ? std::to_string(**value) : "?";
}

}  // namespace

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

int command_exec(const CommonOptions& common, const ExecOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto code = run_loop(exec(*api, options));
  return code ? *code : report(code.error());
}

int command_list(const CommonOptions& common) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto sandboxes = run_loop(list_all(*api));
  if (!sandboxes) return report(sandboxes.error());
  if (common.json) {
    print_json(*sandboxes);
    return 0;
  }
  std::vector<Row> rows;
  for (const Json& item : *sandboxes) {
    if (!item.is_object()) continue;
    const JsonObject& sandbox = item.get_object();
    rows.push_back({text_or(sandbox, "sandboxID", "?"), text_or(sandbox, "state", "?"),
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
  const auto answer = run_loop(api->call("GET", "/sandboxes/" + http::percent_encode(sandbox), std::nullopt));
  if (!answer) return report(answer.error());
  if (common.json || !answer->body.is_object()) {
    print_json(answer->body);
    return 0;
  }
  std::vector<Row> rows;
  for (const auto& [key, value] : answer->body.get_object()) {
    if (key == "envdAccessToken" || value.is_null()) continue;  // shown to machines only
    rows.push_back({std::string(key), value.is_string() ? std::string(value.get_string()) : to_text(value)});
  }
  print_table({"FIELD", "VALUE"}, rows);
  return 0;
}

int command_kill(const CommonOptions& common, const std::vector<std::string>& sandboxes) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  int worst = 0;
  for (const std::string& sandbox : sandboxes) {
    const auto answer =
        run_loop(api->call("DELETE", "/sandboxes/" + http::percent_encode(sandbox), std::nullopt));
    if (answer) {
      if (!common.json) print_line("killed " + sandbox);
    } else {
      worst = report(answer.error());
    }
  }
  return worst;
}

}  // namespace space::cli
