// ProcessClient: programs in a sandbox over the daemon protocol. `space run`, `exec`, `shell`, `attach` carry
// their standard streams to this terminal; the rest are single calls.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/api_client.h"
#include "cli/process_events.h"

namespace space::cli {

struct ProgramSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in the guest's PATH
  std::map<std::string, std::string> env;
  std::string cwd;        // empty: the user's home
  std::string user;       // empty: the template's default user
  std::string tag;        // empty: none
  bool terminal = false;  // PTY of this terminal's size; raw mode while it runs
  bool forward_stdin = false;
  Millis timeout{0};  // 0: none; enforced in the sandbox
};

// Runs it to its end. Answers the exit code a shell would report: the program's own, or 128 + signal. One on
// a terminal outlives its connection: it is attached to again, and ^P ^Q leaves it running (0).
Task<Result<int>> run_program(const ApiClient& api, Target target, ProgramSpec spec);
// The same for one that runs already, whoever started it.
Task<Result<int>> attach_program(const ApiClient& api, Target target, Selector selector, bool forward_stdin);
// Starts it and leaves; its output goes nowhere until somebody attaches.
Task<Result<std::uint32_t>> start_program(const ApiClient& api, const Target& target, ProgramSpec spec);
// Runs it to its end and answers its exit code; its output is dropped.
Task<Result<int>> run_quietly(const ApiClient& api, const Target& target, ProgramSpec spec);

struct RunningProgram {
  std::uint32_t pid = 0;
  std::string tag;                // empty: none
  std::vector<std::string> argv;  // as it was started
  std::string cwd;
};
Task<Result<std::vector<RunningProgram>>> list_programs(const ApiClient& api, const Target& target);
// "TERM" or "KILL".
Task<Result<void>> signal_program(const ApiClient& api, const Target& target, Selector selector,
                                  std::string signal);

}  // namespace space::cli
