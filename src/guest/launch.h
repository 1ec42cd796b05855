// From a StartRequest to a running program: pipes or terminal, environment, working folder, identity.
#pragma once

#include "base/fd.h"
#include "guest/process.h"
#include "guest/users.h"
#include "net/connect.h"

namespace space::guest {

template <class T>
using RpcResult = std::expected<T, connect::RpcError>;

// What every program of this guest starts with.
struct LaunchContext {
  std::string path;             // PATH
  Environment environment;      // the sandbox's variables
  std::string default_workdir;  // empty: the user's home
  int cgroup_fd = -1;           // folder of the user cgroup; -1: none
  bool reset_oom_score = false;
};

struct Launched {
  pid_t pid = -1;
  ProcessPipes pipes;
};

// Blocks until the program has been exec'ed. A missing folder or a program that cannot be started:
// invalid_argument.
RpcResult<Launched> launch(const StartRequest& request, const User& user, const LaunchContext& context);

}  // namespace space::guest
