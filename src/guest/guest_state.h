// What the whole daemon shares: who the sandbox is and what its programs start with. Set by control calls;
// leases and the wake-up time by programs of the sandbox.
#pragma once

#include <cstdint>
#include <string>

#include "base/secret.h"
#include "guest/control_messages.h"
#include "guest/leases.h"
#include "guest/users.h"
#include "guest/wake_up.h"
#include "net/task.h"

namespace space::guest {

struct GuestState {
  explicit GuestState(const Executor& executor) : thawed(executor) {}

  SecretText access_token;  // empty: none asked for
  Environment environment;
  std::string default_user = "user";
  std::string default_workdir;
  std::string path{default_path};
  std::string daemon_version = "unknown";
  UserDatabase users;
  Leases leases;
  WakeUp wake_up;

  int user_cgroup_fd = -1;       // folder of the cgroup programs start in; -1: none
  bool reset_oom_score = false;  // the daemon protected itself, programs must not inherit that
  bool frozen = false;           // a program started in a frozen cgroup would never reach its exec
  Event thawed;
  std::uint64_t quiesce_turn =
      0;  // moved on by each quiesce and each thaw: one that was overtaken freezes nothing
};

// What of `init` is not in `message` stays.
void take_init(GuestState& state, InitMessage message);

}  // namespace space::guest
