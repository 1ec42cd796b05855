#include "cli/process_events.h"

#include <charconv>
#include <csignal>
#include <utility>

namespace space::cli {

namespace {

Result<Bytes> bytes_member(const JsonObject& data, std::string_view key) {
  SPACE_TRY(const auto text, text_member(data, key));
  if (!text) return Bytes();
  auto bytes = from_base64(*text);
  if (!bytes) return fail(Code::internal, "the sandbox sent output that is not base64");
  return *std::move(bytes);
}

// "signal: killed" -> 137.
int exit_code_of(const JsonObject& end) {
  const auto code = int_member(end, "exitCode", -1, 255);
  if (code && *code && **code >= 0) return static_cast<int>(**code);
  const auto exited = bool_member(end, "exited");
  if (exited && exited->value_or(false)) return 0;
  const auto status = text_member(end, "status");
  const std::string text = status ? status->value_or("") : "";
  for (const auto& [name, signal] :
       {std::pair("terminated", SIGTERM), std::pair("interrupt", SIGINT), std::pair("hangup", SIGHUP),
        std::pair("segmentation fault", SIGSEGV), std::pair("aborted", SIGABRT)})
    if (text == std::string("signal: ") + name) return 128 + signal;
  return 128 + SIGKILL;
}

Code code_of(std::string_view rpc_code) {
  if (rpc_code == "deadline_exceeded") return Code::deadline;
  if (rpc_code == "not_found") return Code::not_found;
  if (rpc_code == "unavailable") return Code::unavailable;
  return Code::invalid_argument;
}

}  // namespace

Result<ProcessEvent> parse_process_event(std::string_view payload) {
  SPACE_TRY(const JsonObject message, parse_json_object(payload, "event"));
  SPACE_TRY(const JsonObject* event, object_member(message, "event"));
  ProcessEvent parsed;
  if (event == nullptr) return parsed;
  SPACE_TRY(const JsonObject* start, object_member(*event, "start"));
  if (start != nullptr) {
    SPACE_TRY(const auto pid, require_int(*start, "pid", 1, 0x7fffffff));
    parsed.pid = static_cast<std::uint32_t>(pid);
  }
  SPACE_TRY(const JsonObject* data, object_member(*event, "data"));
  if (data != nullptr) {
    SPACE_TRY(parsed.out, bytes_member(*data, data->contains("pty") ? "pty" : "stdout"));
    SPACE_TRY(parsed.err, bytes_member(*data, "stderr"));
  }
  SPACE_TRY(const JsonObject* end, object_member(*event, "end"));
  if (end != nullptr) parsed.exit_code = exit_code_of(*end);
  return parsed;
}

Result<void> parse_end_of_stream(std::string_view payload) {
  SPACE_TRY(const JsonObject trailer, parse_json_object(payload, "end of stream"));
  SPACE_TRY(const JsonObject* error, object_member(trailer, "error"));
  if (error == nullptr) return {};
  SPACE_TRY(const auto code, text_member(*error, "code"));
  SPACE_TRY(const auto message, text_member(*error, "message"));
  return fail(code_of(code.value_or("")), "{}", message.value_or("the sandbox ended the stream"));
}

Result<Selector> parse_selector(std::string_view text) {
  Selector selector;
  std::uint32_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error == std::errc() && end == text.data() + text.size() && pid > 0) {
    selector.pid = pid;
  } else if (text.empty() || text.find_first_not_of("0123456789") == std::string_view::npos) {
    return fail(Code::invalid_argument, "'{}' is neither a pid nor a tag: 'space ps ID' lists both", text);
  } else {
    selector.tag = text;
  }
  return selector;
}

JsonObject to_json(const Selector& selector) {
  JsonObject object;
  if (selector.pid) {
    object["pid"] = *selector.pid;
  } else {
    object["tag"] = selector.tag;
  }
  return object;
}

std::string to_string(const Selector& selector) {
  return selector.pid ? std::to_string(*selector.pid) : selector.tag;
}

}  // namespace space::cli
