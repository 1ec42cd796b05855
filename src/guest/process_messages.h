// The messages of process.Process (api/envd.md) between their JSON form and plain structs. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "guest/environment.h"

namespace space::guest {

struct ProcessConfig {
  std::string command;
  std::vector<std::string> arguments;
  Environment environment;
  std::optional<std::string> working_folder;
};
struct TerminalSize {
  std::uint16_t columns = 0;
  std::uint16_t rows = 0;
};
struct StartRequest {
  ProcessConfig process;
  std::optional<TerminalSize> terminal;
  std::optional<std::string> tag;
  bool stdin_open = true;  // absent means open, for old clients
  bool hidden = false;     // the daemon's own: clients neither see nor reach it. Never from a message
};
struct Selector {
  std::optional<std::uint32_t> pid;
  std::string tag;  // used when there is no pid
};
struct Input {
  bool terminal = false;
  Bytes bytes;
};
struct StreamInputMessage {  // at most one is set; none is a keepalive
  std::optional<Selector> start;
  std::optional<Input> data;
};

Result<StartRequest> parse_start(const JsonObject& message);
Result<Selector> parse_selector(const JsonObject& message);   // member "process"
Result<Input> parse_input(const JsonObject& message);         // member "input"
Result<std::string> parse_signal(const JsonObject& message);  // the enum's name, known or not
Result<std::optional<TerminalSize>> parse_terminal(const JsonObject& message);  // member "pty"
Result<StreamInputMessage> parse_stream_input(const JsonObject& message);

enum class Output : unsigned char { standard, error, terminal };

// How a process ended, in the words of the protocol.
struct ExitStatus {
  int code = 0;         // -1 when a signal ended it
  bool exited = false;  // false when a signal ended it
  std::string status;   // "exit status 3", "signal: killed"
};
ExitStatus describe_wait_status(int wait_status);

// {"event":{…}} as JSON text.
std::string start_event(std::uint32_t pid);
std::string data_event(Output output, std::span<const std::byte> bytes);
std::string end_event(const ExitStatus& status);
std::string keepalive_event();

// One entry of List.
JsonObject process_info(std::uint32_t pid, const ProcessConfig& config,
                        const std::optional<std::string>& tag);

}  // namespace space::guest
