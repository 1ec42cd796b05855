// ProcessClient: runs a program in a sandbox over the daemon protocol and carries its standard streams to
// this terminal. Used by `space run`, `exec` and `shell`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/api_client.h"

namespace space::cli {

struct ProgramSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in the guest's PATH
  std::map<std::string, std::string> env;
  std::string cwd;        // empty: the user's home
  std::string user;       // empty: the template's default user
  bool terminal = false;  // PTY of this terminal's size; raw mode while it runs
  bool forward_stdin = false;
  Millis timeout{0};  // 0: none; enforced in the sandbox
};

// Runs it to its end. Answers the exit code a shell would report: the program's own, or 128 + signal.
Task<Result<int>> run_program(const ApiClient& api, const Target& target, ProgramSpec program);

}  // namespace space::cli
