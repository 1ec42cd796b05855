// SandboxLogs: the logs of this node's sandboxes. A log outlives its sandbox, for the question "why did it
// end" comes after the end; of those that ended, the newest are kept.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "sandboxd/sandbox_log.h"

namespace space {

class SandboxLogs {
 public:
  static constexpr std::size_t ended_max = 32;

  explicit SandboxLogs(Executor executor) : executor_(std::move(executor)) {}

  // A new, empty one, or the one of a sandbox that ended and is being made again.
  std::shared_ptr<SandboxLog> open(const std::string& id);
  // Its sandbox is gone.
  void end(const std::string& id);
  std::shared_ptr<SandboxLog> find(const std::string& id) const;  // nullptr: none

 private:
  Executor executor_;
  std::map<std::string, std::shared_ptr<SandboxLog>> logs_;
  std::deque<std::string> ended_;  // oldest first
};

}  // namespace space
