#include "cli/process_client.h"

#include "cli/connect_stream.h"
#include "cli/session.h"
#include "cli/terminal.h"

namespace space::cli {

namespace {

// Keep-alives come every 20 s (session.cc); a program may be silent for longer than any bound of ours.
constexpr Millis start_patience{60'000};
constexpr Millis quiet_patience{120'000};

JsonObject start_request(const ProgramSpec& spec) {
  JsonObject process;
  process["cmd"] = spec.argv.front();
  process["args"] = JsonArray(spec.argv.begin() + 1, spec.argv.end());
  JsonObject env;
  for (const auto& [name, value] : spec.env) env[name] = value;
  process["envs"] = std::move(env);
  if (!spec.cwd.empty()) process["cwd"] = spec.cwd;
  JsonObject request;
  request["process"] = std::move(process);
  request["stdin"] = spec.forward_stdin;
  if (!spec.tag.empty()) request["tag"] = spec.tag;
  if (spec.terminal) request["pty"] = to_json(terminal_size());
  return request;
}

http::Fields start_fields(const ProgramSpec& spec) {
  http::Fields fields = session_fields();
  if (spec.timeout.count() > 0) fields.add("Connect-Timeout-Ms", std::to_string(spec.timeout.count()));
  if (!spec.user.empty()) fields.add("Authorization", basic_authorization(spec.user));
  return fields;
}

Task<Result<std::unique_ptr<ConnectStream>>> open_start(const ApiClient& api, const Target& target,
                                                        const ProgramSpec& spec) {
  return ConnectStream::open(api, target, "/process.Process/Start", start_request(spec), start_fields(spec));
}

Result<RunningProgram> parse_program(const JsonObject& info) {
  RunningProgram program;
  SPACE_TRY(const auto pid, require_int(info, "pid", 1, 0x7fffffff));
  program.pid = static_cast<std::uint32_t>(pid);
  SPACE_TRY(auto tag, text_member(info, "tag"));
  program.tag = std::move(tag).value_or("");
  SPACE_TRY(const JsonObject* config, object_member(info, "config"));
  if (config == nullptr) return program;
  SPACE_TRY(auto cmd, text_member(*config, "cmd"));
  program.argv.push_back(std::move(cmd).value_or(""));
  SPACE_TRY(const JsonArray* args, array_member(*config, "args"));
  if (args != nullptr)
    for (const Json& arg : *args)
      if (arg.is_string()) program.argv.emplace_back(arg.get_string());
  SPACE_TRY(auto cwd, text_member(*config, "cwd"));
  program.cwd = std::move(cwd).value_or("");
  return program;
}

}  // namespace

Task<Result<int>> run_program(const ApiClient& api, Target target, ProgramSpec spec) {
  SPACE_CO_TRY(auto stream, co_await open_start(api, target, spec));
  SessionOptions options{.terminal = spec.terminal,
                         .forward_stdin = spec.forward_stdin || spec.terminal,
                         .reattach = spec.terminal};
  Selector selector;
  selector.tag = spec.tag;
  const auto session = std::make_shared<Session>(co_await boost::asio::this_coro::executor, api,
                                                 std::move(target), std::move(selector), options);
  co_return co_await session->run(std::move(stream));
}

Task<Result<int>> attach_program(const ApiClient& api, Target target, Selector selector, bool forward_stdin) {
  // Only a terminal has a size to change: that is how to tell one.
  JsonObject resize{{"process", to_json(selector)}, {"pty", to_json(terminal_size())}};
  const auto resized = co_await api.daemon_call(target, "/process.Process/Update", std::move(resize));
  if (!resized && resized.error().code != Code::invalid_argument) co_return std::unexpected(resized.error());
  const bool terminal = resized.has_value();
  SessionOptions options{
      .terminal = terminal, .forward_stdin = forward_stdin || terminal, .reattach = terminal};
  const auto session = std::make_shared<Session>(co_await boost::asio::this_coro::executor, api,
                                                 std::move(target), std::move(selector), options);
  SPACE_CO_TRY(auto stream, co_await session->attach());
  co_return co_await session->run(std::move(stream));
}

Task<Result<std::uint32_t>> start_program(const ApiClient& api, const Target& target, ProgramSpec spec) {
  SPACE_CO_TRY(auto stream, co_await open_start(api, target, spec));
  while (true) {
    SPACE_CO_TRY(const auto payload, co_await stream->next(start_patience));
    if (!payload) co_return fail(Code::internal, "the stream ended before the program started");
    SPACE_CO_TRY(const ProcessEvent event, parse_process_event(*payload));
    if (event.pid) co_return *event.pid;
  }
}

Task<Result<int>> run_quietly(const ApiClient& api, const Target& target, ProgramSpec spec) {
  SPACE_CO_TRY(auto stream, co_await open_start(api, target, spec));
  std::optional<int> code;
  while (true) {
    SPACE_CO_TRY(const auto payload, co_await stream->next(quiet_patience));
    if (!payload) break;
    SPACE_CO_TRY(const ProcessEvent event, parse_process_event(*payload));
    if (event.exit_code) code = event.exit_code;
  }
  if (!code) co_return fail(Code::internal, "the stream ended before the program did");
  co_return *code;
}

Task<Result<std::vector<RunningProgram>>> list_programs(const ApiClient& api, const Target& target) {
  SPACE_CO_TRY(const JsonObject answer, co_await api.daemon_call(target, "/process.Process/List", {}));
  SPACE_CO_TRY(const JsonArray* processes, array_member(answer, "processes"));
  std::vector<RunningProgram> programs;
  if (processes == nullptr) co_return programs;
  for (const Json& item : *processes) {
    if (!item.is_object()) continue;
    SPACE_CO_TRY(RunningProgram program, parse_program(item.get_object()));
    programs.push_back(std::move(program));
  }
  co_return programs;
}

Task<Result<void>> signal_program(const ApiClient& api, const Target& target, Selector selector,
                                  std::string signal) {
  JsonObject request{{"process", to_json(selector)}, {"signal", "SIGNAL_SIG" + signal}};
  SPACE_CO_CHECK(co_await api.daemon_call(target, "/process.Process/SendSignal", std::move(request)));
  co_return Result<void>();
}

}  // namespace space::cli
