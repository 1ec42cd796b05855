// ProcessTable: every program clients started in this guest, and the reaping of all children.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <deque>
#include <map>
#include <memory>

#include "guest/launch.h"
#include "guest/process.h"

namespace space::guest {

class ProcessTable {
 public:
  // Blocks SIGCHLD and takes it by descriptor. One per process: it reaps whatever child or orphan ends.
  explicit ProcessTable(const Executor& executor);

  RpcResult<std::shared_ptr<Process>> start(StartRequest request, const User& user,
                                            const LaunchContext& context, std::optional<Millis> timeout);
  // A program that runs. Otherwise not_found "process with pid N not found".
  RpcResult<std::shared_ptr<Process>> find(const Selector& selector) const;
  // The same, or one that ended less than 30 s ago.
  RpcResult<std::shared_ptr<Process>> find_or_recent(const Selector& selector);
  const std::map<pid_t, std::shared_ptr<Process>>& running() const { return running_; }

 private:
  struct Ended {
    Monotonic until;
    std::shared_ptr<Process> process;
  };
  Task<void> watch_children();
  void reap();
  void retire(const std::shared_ptr<Process>& process);
  void forget_old();

  Executor executor_;
  boost::asio::posix::stream_descriptor child_signal_;
  std::map<pid_t, std::shared_ptr<Process>> running_;
  std::deque<Ended> ended_;  // oldest first
};

}  // namespace space::guest
