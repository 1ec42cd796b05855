// Handover: what a daemon leaves to the one that takes its place in the same process (an exec): versioned
// JSON in a sealed memory file, and descriptors it names by number. Pure; the way back is fuzzed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/secret.h"
#include "guest/process_messages.h"

namespace space::guest {

inline constexpr std::int64_t handover_version = 1;
inline constexpr std::size_t handover_bytes_max = 256 * 1024 * 1024;

struct ProcessRecord {
  std::int32_t pid = 0;
  StartRequest request;
  int stdin_fd = -1;  // -1: closed
  int stdout_fd = -1;
  int stderr_fd = -1;
  int terminal_fd = -1;
  std::optional<std::int64_t> kill_at_ms;  // its timeout, in the machine's monotonic time
  std::optional<ExitStatus> exit;          // it was reaped; its output is still open
  bool timed_out = false;
  bool signalled = false;
  std::vector<Bytes> kept;       // events of a terminal nobody is attached to
  std::array<Bytes, 3> tails{};  // of Output's kinds: the beginning of a character
};
struct EndedRecord {
  std::int32_t pid = 0;
  StartRequest request;
  ExitStatus exit;
  bool timed_out = false;
  std::int64_t until_ms = 0;  // monotonic
};
struct Handover {
  SecretText access_token;
  Environment environment;
  std::string default_user;
  std::string default_workdir;
  std::string path;
  bool frozen = false;
  std::map<std::string, std::int64_t, std::less<>> lease_ends_ms;  // monotonic
  std::optional<std::int64_t> wake_at_ms;                          // since 1970
  std::vector<ProcessRecord> running;
  std::vector<EndedRecord> ended;  // oldest first
  std::vector<int> left_outputs;   // of ended programs, that others still hold
};

std::string handover_text(const Handover& handover);
// An error also when a descriptor is named twice or is none a daemon would hand over.
Result<Handover> parse_handover(std::string_view text);

}  // namespace space::guest
