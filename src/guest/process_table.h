// ProcessTable: every program clients started in this guest, and the reaping of all children.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <deque>
#include <map>
#include <memory>

#include "guest/launch.h"
#include "guest/process.h"
#include "guest/spawn_threads.h"

namespace space::guest {

class ProcessTable {
 public:
  // Blocks SIGCHLD and takes it by descriptor. One per process: it reaps whatever child or orphan ends.
  explicit ProcessTable(const Executor& executor);

  // Completes when the program has been exec'ed. One whose file system does not answer for 30 s, or the
  // timeout if that is shorter, is killed: deadline_exceeded.
  Task<RpcResult<std::shared_ptr<Process>>> start(StartRequest request, User user, LaunchContext context,
                                                  std::optional<Millis> timeout);
  // A program that runs. Otherwise not_found "process with pid N not found".
  RpcResult<std::shared_ptr<Process>> find(const Selector& selector) const;
  // The same, or one that ended less than 30 s ago.
  RpcResult<std::shared_ptr<Process>> find_or_recent(const Selector& selector);
  const std::map<pid_t, std::shared_ptr<Process>>& running() const { return running_; }

  // What a daemon that takes this one's place needs; the descriptors stay ours until it does.
  void hand_over(Handover& handover);
  // Once, before anything is started: goes on with another's programs, and reaps those that ended meanwhile.
  // Owns the descriptors from then on.
  void take_over(const Handover& handover);
  // Outputs of programs nothing else is known of.
  void take_outputs(std::vector<Fd> outputs);
  bool is_starting() const { return !starting_.empty(); }

 private:
  struct Ended {
    Monotonic until;
    std::shared_ptr<Process> process;
  };
  // A program until it is heard that it has been exec'ed; it may even have ended by then.
  struct Starting {
    Starting(const Executor& executor, Launch launch)
        : ours(std::move(launch.ours)),
          theirs(std::move(launch.theirs)),
          job(std::move(launch.plan)),
          heard(executor) {}
    ProcessPipes ours;
    ProgramEnds theirs;
    SpawnThreads::Job job;
    Event heard;
    std::optional<SpawnThreads::Outcome> outcome;
    std::optional<int> wait_status;
    bool given_up = false;
  };

  Task<void> watch_children();
  void reap();
  void on_exit(pid_t pid, int wait_status);
  Task<RpcResult<pid_t>> await_start(std::shared_ptr<Starting> starting, Deadline deadline);
  void on_start(const std::shared_ptr<Starting>& starting, SpawnThreads::Outcome outcome);
  void retire(const std::shared_ptr<Process>& process);
  void forget_old();

  using Running = std::map<pid_t, std::shared_ptr<Process>>;
  Running& home_of(const StartRequest& request) { return request.hidden ? hidden_ : running_; }

  Executor executor_;
  boost::asio::posix::stream_descriptor child_signal_;
  LeftOutputs left_;
  Running running_;
  Running hidden_;           // the daemon's own programs
  std::deque<Ended> ended_;  // oldest first
  std::vector<std::shared_ptr<Starting>> starting_;
  SpawnThreads threads_;
};

}  // namespace space::guest
