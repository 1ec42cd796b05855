// What the daemon says of a running program (api/envd.md, process.Process), parsed. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/json.h"

namespace space::cli {

struct ProcessEvent {
  std::optional<std::uint32_t> pid;  // the first event
  Bytes out;                         // standard output, or a terminal's
  Bytes err;
  std::optional<int> exit_code;  // as a shell reports it: the program's own, or 128 + signal
};

Result<ProcessEvent> parse_process_event(std::string_view payload);

// The last envelope of a stream: nothing when it is an end in order, else why it ended. Code::unavailable: it
// may be asked for again.
Result<void> parse_end_of_stream(std::string_view payload);

// A running program as people and scripts name it: digits are a pid, anything else a tag.
struct Selector {
  std::optional<std::uint32_t> pid;
  std::string tag;
};
Result<Selector> parse_selector(std::string_view text);
JsonObject to_json(const Selector& selector);
std::string to_string(const Selector& selector);

}  // namespace space::cli
