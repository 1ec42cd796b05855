#include "sandboxd/sandbox_logs.h"

#include <algorithm>

namespace space {

std::shared_ptr<SandboxLog> SandboxLogs::open(const std::string& id) {
  std::erase(ended_, id);
  auto& log = logs_[id];
  if (!log) log = std::make_shared<SandboxLog>(executor_);
  return log;
}

void SandboxLogs::end(const std::string& id) {
  if (!logs_.contains(id) || std::ranges::find(ended_, id) != ended_.end()) return;
  ended_.push_back(id);
  if (ended_.size() <= ended_max) return;
  logs_.erase(ended_.front());
  ended_.pop_front();
}

std::shared_ptr<SandboxLog> SandboxLogs::find(const std::string& id) const {
  const auto found = logs_.find(id);
  return found == logs_.end() ? nullptr : found->second;
}

}  // namespace space
