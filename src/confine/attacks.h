// For tests: what somebody who has taken over a process would try, in a form that harms nothing, and a child
// process to try it in. Without confinement every one of them succeeds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace space::confine {

struct Attack {
  std::string name;
  std::function<bool()> prepare;  // before confinement; may be empty
  std::function<long()> act;      // 0 or more: success; else -errno
};

// Runs it in a child process of one thread that confines itself first: "succeeded", "SIGSYS" or another
// signal's name, or an errno's ("EACCES"). `confine` may be empty.
std::string outcome_of(const Attack& attack, const std::function<Result<void>()>& confine);

// Files to aim at, in a folder that is no daemon's.
struct Targets {
  Targets();
  Targets(const Targets&) = delete;
  ~Targets();
  std::string folder;
  std::string secret;
};
// What a file system view is for.
std::vector<Attack> attacks_on_files(const Targets& targets);
// System calls that no daemon has any business with.
std::vector<Attack> attacks_by_system_call(const Targets& targets);
// A connection to somewhere, and a port of its own, with sockets that were open before.
std::vector<Attack> attacks_on_ports();

}  // namespace space::confine
