// A program the daemon runs for itself: hidden from clients, its output dropped, ended with its process group
// when its time is up.
#pragma once

#include <string>

#include "guest/process_table.h"

namespace space::guest {

struct HelperProgram {
  std::string command;
  std::vector<std::string> arguments;
  Environment environment;
  User user;
  LaunchContext context;
  Millis time_max{2'000};
};
struct HelperEnd {
  bool succeeded = false;
  bool timed_out = false;
  std::string status;  // "exit status 0", "signal: killed", "timed out", or why it did not start
};

// Returns when the program has ended, at the latest a moment after its time.
Task<HelperEnd> run_helper(ProcessTable& table, HelperProgram program);

// The superuser, whatever the guest's files say of it.
User superuser();

}  // namespace space::guest
