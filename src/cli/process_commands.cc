#include "base/ids.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/process_client.h"
#include "cli/terminal.h"

namespace space::cli {

namespace {

void set_terminal_environment(ProgramSpec& spec) {
  const char* term = ::getenv("TERM");
  spec.env.try_emplace("TERM", term == nullptr || *term == '\0' ? "xterm-256color" : term);
  spec.env.try_emplace("LANG", "C.UTF-8");
  spec.env.try_emplace("LC_ALL", "C.UTF-8");
}

ProgramSpec shell_of(const ShellOptions& options) {
  ProgramSpec spec;
  spec.argv = {"/bin/bash", "-i", "-l"};
  spec.user = options.user;
  spec.terminal = true;
  // Nobody else's, so that attaching to it again cannot meet another program with its pid.
  spec.tag = "shell-" + new_token().substr(0, 8);
  set_terminal_environment(spec);
  return spec;
}

Task<Result<int>> exec(const ApiClient& api, const ExecOptions& options) {
  SPACE_CO_TRY(Target target, co_await api.connect_sandbox(options.sandbox));
  co_return co_await run_program(api, std::move(target), program_of(options));
}

Task<Result<std::uint32_t>> exec_detached(const ApiClient& api, const ExecOptions& options) {
  SPACE_CO_TRY(const Target target, co_await api.connect_sandbox(options.sandbox));
  ProgramSpec spec = program_of(options);
  spec.forward_stdin = options.interactive;
  co_return co_await start_program(api, target, std::move(spec));
}

Task<Result<int>> shell(const ApiClient& api, const ShellOptions& options) {
  SPACE_CO_TRY(Target target, co_await api.connect_sandbox(options.sandbox));
  if (options.attach.empty()) co_return co_await run_program(api, std::move(target), shell_of(options));
  SPACE_CO_TRY(Selector selector, parse_selector(options.attach));
  co_return co_await attach_program(api, std::move(target), std::move(selector), false);
}

Task<Result<int>> attach(const ApiClient& api, const ProcessOptions& options) {
  SPACE_CO_TRY(Selector selector, parse_selector(options.process));
  SPACE_CO_TRY(Target target, co_await api.connect_sandbox(options.sandbox));
  co_return co_await attach_program(api, std::move(target), std::move(selector), options.interactive);
}

Task<Result<std::vector<RunningProgram>>> list(const ApiClient& api, const std::string& sandbox) {
  SPACE_CO_TRY(const Target target, co_await api.connect_sandbox(sandbox));
  co_return co_await list_programs(api, target);
}

Task<Result<void>> kill(const ApiClient& api, const ProcessOptions& options) {
  SPACE_CO_TRY(Selector selector, parse_selector(options.process));
  SPACE_CO_TRY(const Target target, co_await api.connect_sandbox(options.sandbox));
  co_return co_await signal_program(api, target, std::move(selector), options.signal);
}

std::string command_line(const RunningProgram& program) {
  std::string line;
  for (const std::string& arg : program.argv) line += (line.empty() ? "" : " ") + arg;
  return line;
}

JsonArray to_json(const std::vector<RunningProgram>& programs) {
  JsonArray array;
  for (const RunningProgram& program : programs) {
    JsonObject object{{"pid", program.pid}, {"command", JsonArray(program.argv.begin(), program.argv.end())}};
    object["tag"] = program.tag.empty() ? Json(nullptr) : Json(program.tag);
    object["cwd"] = program.cwd.empty() ? Json(nullptr) : Json(program.cwd);
    array.push_back(std::move(object));
  }
  return array;
}

int exec_and_leave(const CommonOptions& common, const ApiClient& api, const ExecOptions& options) {
  const auto pid = run_loop(exec_detached(api, options));
  if (!pid) return report(pid.error());
  if (common.json) {
    print_json(JsonObject{{"pid", *pid}});
  } else {
    print_line(std::to_string(*pid));
  }
  return 0;
}

}  // namespace

ProgramSpec program_of(const ExecOptions& options) {
  ProgramSpec spec;
  spec.argv = options.argv;
  spec.env = options.env;
  spec.cwd = options.cwd;
  spec.user = options.user;
  spec.tag = options.tag;
  spec.terminal = options.terminal;
  spec.forward_stdin =
      !options.terminal && (options.interactive || (!options.no_stdin && !stdin_is_terminal()));
  spec.timeout = std::chrono::seconds(options.timeout_seconds);
  if (spec.terminal) set_terminal_environment(spec);
  return spec;
}

int command_exec(const CommonOptions& common, const ExecOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  if (options.detach) return exec_and_leave(common, *api, options);
  const auto code = run_loop(exec(*api, options));
  return code ? *code : report(code.error());
}

int command_shell(const CommonOptions& common, const ShellOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto code = run_loop(shell(*api, options));
  return code ? *code : report(code.error());
}

int command_attach(const CommonOptions& common, const ProcessOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto code = run_loop(attach(*api, options));
  return code ? *code : report(code.error());
}

int command_ps(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto programs = run_loop(list(*api, sandbox));
  if (!programs) return report(programs.error());
  if (common.json) {
    print_json(to_json(*programs));
    return 0;
  }
  std::vector<Row> rows;
  for (const RunningProgram& program : *programs)
    rows.push_back(
        {std::to_string(program.pid), program.tag.empty() ? "-" : program.tag, command_line(program)});
  print_table({"PID", "TAG", "COMMAND"}, std::move(rows));
  return 0;
}

int command_kill_process(const CommonOptions& common, const ProcessOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto killed = run_loop(kill(*api, options));
  if (!killed) return report(killed.error());
  if (!common.json) print_line(fmt::format("sent {} to {}", options.signal, printable(options.process)));
  return 0;
}

}  // namespace space::cli
