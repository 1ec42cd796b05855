// What an unprivileged daemon gives up, for good, before it reads the first byte of anyone: whoever takes it
// over through that byte has its uid's own files, the descriptors it holds and the few system calls its work
// needs.
#pragma once

#include <vector>

#include "base/result.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"

namespace space::confine {

struct CallWhen {
  int call;
  ArgumentIs when;
};

struct DaemonProfile {
  std::vector<LandlockRule> files;   // all that it may still open by name
  std::vector<int> calls;            // besides those of memory, threads, time, files and open descriptors
  std::vector<CallWhen> calls_when;  // with this argument only
  bool tcp = false;                  // its work is to connect to others, or to listen
};

// Core files, ptrace and /proc by its own uid, capabilities, gaining any by exec, files outside its view, TCP
// ports and every other system call, which kills it. Landlock and capabilities belong to a thread, so this
// comes before any is started; conflict when there is one. Without Landlock in this kernel it warns and goes
// on. In a build with a sanitizer it only warns: the runtime needs what this takes.
Result<void> confine_daemon(const DaemonProfile& profile);

}  // namespace space::confine
