// Timeouts: which sandbox ends when. One instant per id; the earliest comes out first. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace space::control {

class Timeouts {
 public:
  void set(const std::string& id, Wall end_at);  // replaces
  void remove(const std::string& id);
  std::optional<Wall> next() const;
  // Takes out what ends at or before `now`, earliest first.
  std::vector<std::string> take_due(Wall now);

 private:
  std::set<std::pair<Wall, std::string>> by_time_;
  std::map<std::string, Wall> by_id_;
};

}  // namespace space::control
