// Processes as /proc shows them, and the few ways in which root starts or leaves one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/fd.h"

namespace space::priv {

// A pid together with the time it began: names one process for ever, though pids come round again.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // since boot

  bool operator==(const ProcessId&) const = default;
};

Result<ProcessId> process_id(pid_t pid);
// False for a zombie: it runs no code and holds nothing.
bool is_alive(const ProcessId& process);
Result<Fd> open_pidfd(const ProcessId& process);
// Whether any process, zombies included, runs under `uid`. Reads all of /proc: about 2 us a process.
bool uid_has_process(uid_t uid);

// Runs a program of the system to its end with an empty environment. Blocks.
Result<void> run_program(const std::vector<std::string>& argv);
// The same; what it writes to standard output, at most 64 KiB.
Result<std::string> program_output(const std::vector<std::string>& argv);
// Closes every descriptor above 2 that is not listed.
void close_all_except(std::vector<int> kept);
// Standard input, output and error become /dev/null.
Result<void> detach_standard_streams();

// Pure: state letter and start time out of /proc/PID/stat, whose second field may contain anything.
struct ProcessStat {
  char state;
  std::uint64_t start_ticks;
};
Result<ProcessStat> parse_process_stat(std::string_view text);

}  // namespace space::priv
