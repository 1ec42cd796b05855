// Starting one program: plain system calls, no Asio, no allocation between clone and exec.
//
// The child shares our memory until it has exec'ed (clone3 with CLONE_VM and CLONE_VFORK), so nothing is
// copied and a failure is reported by writing it down; CLONE_INTO_CGROUP puts it into the user cgroup without
// a migration.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "guest/users.h"

namespace space::guest {

struct SpawnPlan {
  std::vector<std::string> candidates;  // tried by execve in turn until one exists
  std::vector<std::string> arguments;   // argv, the program's name first
  std::vector<std::string> environment;
  std::string working_folder;
  std::optional<User> user;  // identity to take on; nullopt: keep ours
  int stdin_fd = -1;         // these three become 0, 1, 2; each must be above 2
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool controlling_terminal = false;  // stdin_fd is a terminal and becomes the session's
  int cgroup_fd = -1;                 // folder of a cgroup v2; -1: ours
  bool reset_oom_score = false;       // undo the daemon's own protection
};

enum class SpawnStage : unsigned char { clone, prepare, identity, working_folder, exec };

struct SpawnFailure {
  SpawnStage stage = SpawnStage::clone;
  int error_number = 0;
};

// Returns the pid of a program that has been exec'ed. Blocks until then, for ever if the cgroup is frozen or
// the program's file system does not answer: `pid` is set before, and a SIGKILL to it makes this return. From
// any thread. The child is in a session of its own, with no signal blocked or ignored.
std::expected<pid_t, SpawnFailure> spawn_program(const SpawnPlan& plan, std::atomic<pid_t>& pid);

}  // namespace space::guest
