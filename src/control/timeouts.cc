#include "control/timeouts.h"

namespace space::control {

void Timeouts::set(const std::string& id, Wall end_at) {
  remove(id);
  by_time_.emplace(end_at, id);
  by_id_.emplace(id, end_at);
}

void Timeouts::remove(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  by_time_.erase({found->second, id});
  by_id_.erase(found);
}

std::optional<Wall> Timeouts::next() const {
  if (by_time_.empty()) return std::nullopt;
  return by_time_.begin()->first;
}

std::vector<std::string> Timeouts::take_due(Wall now) {
  std::vector<std::string> due;
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    due.push_back(by_time_.begin()->second);
    by_id_.erase(due.back());
    by_time_.erase(by_time_.begin());
  }
  return due;
}

}  // namespace space::control
