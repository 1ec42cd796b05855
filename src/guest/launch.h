// From a StartRequest to what starts its program: pipes or terminal, environment, working folder, identity.
#pragma once

#include "base/fd.h"
#include "guest/process.h"
#include "guest/spawner.h"
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

// Ends the program gets; to be closed when it has been started.
struct ProgramEnds {
  Fd stdin_reader;
  Fd stdout_writer;
  Fd stderr_writer;
};

// A program ready to be started. The plan refers to descriptors of `theirs`.
struct Launch {
  ProcessPipes ours;
  ProgramEnds theirs;
  SpawnPlan plan;
};

RpcResult<Launch> prepare_launch(const StartRequest& request, const User& user, const LaunchContext& context);
// What to tell the client. A missing folder or a program that cannot be started: invalid_argument.
connect::RpcError describe(const SpawnFailure& failure, const SpawnPlan& plan);

}  // namespace space::guest
