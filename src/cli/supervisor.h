// Supervisor: what `space up` is. Starts the daemons in order, restarts one that dies, ends them in reverse
// order. Runs as root; plain code without Asio. Killing it stops the daemons (PR_SET_PDEATHSIG) and never a
// sandbox. Each daemon has a process group of its own: the terminal's signals are for the supervisor alone.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace space::cli {

struct DaemonSpec {
  std::string name;               // "space-noded"
  std::vector<std::string> argv;  // argv[0]: absolute path
  uid_t uid = 0;
  gid_t gid = 0;
  std::function<bool()> ready;  // polled until true
  // Instead of SIGTERM, when sandboxes are to run on; also what it gets when the supervisor dies.
  int leave_signal = SIGTERM;
  Millis stop_limit{5'000};  // then it is killed
  rlim_t open_files = 0;     // that it may have; 0: as its parent. As many as this machine allows, at most
};

class Supervisor {
 public:
  // Standard error of every daemon is `log` (append mode). Both outlive the supervisor's run.
  Supervisor(std::vector<DaemonSpec> daemons, int log) : daemons_(std::move(daemons)), log_(log) {
    children_.resize(daemons_.size());
  }

  // Starts all, one after the other; `progress` gets a line for each. On failure those started are stopped
  // again.
  Result<void> start(const std::function<void(std::string)>& progress);
  // SIGTERM and SIGINT: everything ends in good order. SIGQUIT: the daemons only.
  enum class Ending : unsigned char { in_order, daemons_only };
  // Until one of those (blocked and read by signalfd since start): restarts what dies, reaps orphans.
  Result<Ending> run();
  // One after the other, the last first. `waiting` is called every few milliseconds.
  void stop(Ending ending, const std::function<void()>& waiting = [] {});

 private:
  struct Child {
    pid_t pid = -1;
    Monotonic started{};
    Monotonic restart_at{};
    Millis backoff{100};
  };
  Result<void> launch(std::size_t index);
  Result<void> wait_ready(std::size_t index, Deadline deadline);
  void reap();
  void restart_due();
  void stop_one(std::size_t index, Ending ending, const std::function<void()>& waiting);

  std::vector<DaemonSpec> daemons_;
  std::vector<Child> children_;
  int log_;
  Fd signals_;
  bool stopping_ = false;
};

}  // namespace space::cli
