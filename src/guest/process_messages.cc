#include "guest/process_messages.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "base/json_text.h"

namespace space::guest {

namespace {

Result<const JsonObject*> require_object(const JsonObject& message, std::string_view key) {
  SPACE_TRY(const JsonObject* object, object_member(message, key));
  if (object == nullptr) return fail(Code::invalid_argument, "'{}' is missing", key);
  return object;
}

Result<std::vector<std::string>> text_list(const JsonObject& message, std::string_view key) {
  SPACE_TRY(const JsonArray* array, array_member(message, key));
  std::vector<std::string> result;
  if (array == nullptr) return result;
  result.reserve(array->size());
  for (const Json& item : *array) {
    if (!item.is_string()) return fail(Code::invalid_argument, "'{}' must hold strings", key);
    result.emplace_back(item.get_string());
  }
  return result;
}

Result<Environment> text_map(const JsonObject& message, std::string_view key) {
  SPACE_TRY(const JsonObject* object, object_member(message, key));
  Environment result;
  if (object == nullptr) return result;
  for (const auto& [name, value] : *object) {
    if (!value.is_string()) return fail(Code::invalid_argument, "'{}' must hold strings", key);
    result.insert_or_assign(std::string(name), std::string(value.get_string()));
  }
  return result;
}

// The JSON form of protobuf allows both base64 alphabets.
Result<Bytes> bytes_member(const JsonObject& message, std::string_view key) {
  SPACE_TRY(auto text, require_text(message, key));
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  auto bytes = from_base64(text);
  if (!bytes) return fail(Code::invalid_argument, "'{}' is not base64", key);
  return *std::move(bytes);
}

Result<ProcessConfig> parse_config(const JsonObject& config) {
  ProcessConfig result;
  SPACE_TRY(result.command, require_text(config, "cmd"));
  SPACE_TRY(result.arguments, text_list(config, "args"));
  SPACE_TRY(result.environment, text_map(config, "envs"));
  SPACE_TRY(result.working_folder, text_member(config, "cwd"));
  const auto holds_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (result.command.empty()) return fail(Code::invalid_argument, "'cmd' is empty");
  if (holds_nul(result.command) || std::ranges::any_of(result.arguments, holds_nul))
    return fail(Code::invalid_argument, "'cmd' and 'args' must not hold NUL");
  return result;
}

std::string_view signal_name(int number) {
  static constexpr std::array<std::string_view, 16> names = {"",
                                                             "hangup",
                                                             "interrupt",
                                                             "quit",
                                                             "illegal instruction",
                                                             "trace/breakpoint trap",
                                                             "aborted",
                                                             "bus error",
                                                             "floating point exception",
                                                             "killed",
                                                             "user defined signal 1",
                                                             "segmentation fault",
                                                             "user defined signal 2",
                                                             "broken pipe",
                                                             "alarm clock",
                                                             "terminated"};
  return number > 0 && static_cast<std::size_t>(number) < names.size()
             ? names[static_cast<std::size_t>(number)]
             : std::string_view();
}

std::string_view member_name(Output output) {
  switch (output) {
    case Output::standard:
      return "stdout";
    case Output::error:
      return "stderr";
    case Output::terminal:
      return "pty";
  }
  return "stdout";
}

}  // namespace

Result<std::optional<TerminalSize>> parse_terminal(const JsonObject& message) {
  SPACE_TRY(const JsonObject* pty, object_member(message, "pty"));
  if (pty == nullptr) return std::optional<TerminalSize>();
  SPACE_TRY(const JsonObject* size, object_member(*pty, "size"));
  if (size == nullptr) return std::optional(TerminalSize());
  SPACE_TRY(const auto columns, int_member(*size, "cols", 0, UINT16_MAX));
  SPACE_TRY(const auto rows, int_member(*size, "rows", 0, UINT16_MAX));
  return std::optional(TerminalSize{.columns = static_cast<std::uint16_t>(columns.value_or(0)),
                                    .rows = static_cast<std::uint16_t>(rows.value_or(0))});
}

Result<StartRequest> parse_start(const JsonObject& message) {
  StartRequest result;
  SPACE_TRY(const JsonObject* config, require_object(message, "process"));
  SPACE_TRY(result.process, parse_config(*config));
  SPACE_TRY(result.terminal, parse_terminal(message));
  SPACE_TRY(result.tag, text_member(message, "tag"));
  SPACE_TRY(const auto stdin_open, bool_member(message, "stdin"));
  result.stdin_open = stdin_open.value_or(true);
  return result;
}

Result<Selector> parse_selector(const JsonObject& message) {
  SPACE_TRY(const JsonObject* selector, require_object(message, "process"));
  SPACE_TRY(const auto pid, int_member(*selector, "pid", 0, UINT32_MAX));
  SPACE_TRY(auto tag, text_member(*selector, "tag"));
  if (!pid && !tag) return fail(Code::invalid_argument, "'process' must select by 'pid' or 'tag'");
  Selector result;
  if (pid) result.pid = static_cast<std::uint32_t>(*pid);
  if (tag) result.tag = *std::move(tag);
  return result;
}

Result<Input> parse_input(const JsonObject& message) {
  SPACE_TRY(const JsonObject* input, require_object(message, "input"));
  Input result;
  result.terminal = input->contains("pty");
  SPACE_TRY(result.bytes, bytes_member(*input, result.terminal ? "pty" : "stdin"));
  return result;
}

Result<std::string> parse_signal(const JsonObject& message) {
  const Json* value = message.if_contains("signal");
  if (value != nullptr && value->is_int64()) {  // an enum may come as its number
    if (value->get_int64() == 9) return "SIGNAL_SIGKILL";
    if (value->get_int64() == 15) return "SIGNAL_SIGTERM";
    return std::to_string(value->get_int64());
  }
  SPACE_TRY(auto name, text_member(message, "signal"));
  return name ? *std::move(name) : "SIGNAL_UNSPECIFIED";
}

Result<StreamInputMessage> parse_stream_input(const JsonObject& message) {
  StreamInputMessage result;
  SPACE_TRY(const JsonObject* start, object_member(message, "start"));
  SPACE_TRY(const JsonObject* data, object_member(message, "data"));
  if (start != nullptr) {
    SPACE_TRY(result.start, parse_selector(*start));
  } else if (data != nullptr) {
    SPACE_TRY(result.data, parse_input(*data));
  }
  return result;
}

ExitStatus describe_wait_status(int wait_status) {
  if (WIFEXITED(wait_status)) {
    const int code = WEXITSTATUS(wait_status);
    return {.code = code, .exited = true, .status = fmt::format("exit status {}", code)};
  }
  const int number = WTERMSIG(wait_status);
  const std::string_view name = signal_name(number);
  std::string status =
      name.empty() ? fmt::format("signal: signal {}", number) : fmt::format("signal: {}", name);
  if (WCOREDUMP(wait_status)) status += " (core dumped)";
  return {.code = -1, .exited = false, .status = std::move(status)};
}

std::string start_event(std::uint32_t pid) {
  return fmt::format(R"({{"event":{{"start":{{"pid":{}}}}}}})", pid);
}

std::string data_event(Output output, std::span<const std::byte> bytes) {
  return fmt::format(R"({{"event":{{"data":{{"{}":"{}"}}}}}})", member_name(output), to_base64(bytes));
}

std::string end_event(const ExitStatus& status) {
  std::string text =
      fmt::format(R"({{"event":{{"end":{{"exitCode":{},"exited":{},"status":)", status.code, status.exited);
  append_json_string(text, status.status);
  if (!status.exited || status.code != 0) {
    text += R"(,"error":)";
    append_json_string(text, status.status);
  }
  return text + "}}}";
}

std::string keepalive_event() {
  return R"({"event":{"keepalive":{}}})";
}

JsonObject process_info(std::uint32_t pid, const ProcessConfig& config,
                        const std::optional<std::string>& tag) {
  JsonObject envs;
  for (const auto& [name, value] : config.environment) envs[name] = value;
  JsonObject described{{"cmd", config.command},
                       {"args", JsonArray(config.arguments.begin(), config.arguments.end())},
                       {"envs", std::move(envs)}};
  if (config.working_folder) described["cwd"] = *config.working_folder;
  JsonObject info{{"config", std::move(described)}, {"pid", pid}};
  if (tag) info["tag"] = *tag;
  return info;
}

}  // namespace space::guest
