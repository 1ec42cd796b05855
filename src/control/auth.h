// Auth: from an API key to its team.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "store/repository.h"

namespace space::control {

// Looks keys up by their SHA-256, so neither a comparison nor an index can be probed for a key's prefix. Hits
// are remembered for 30 s: that long a removed key may still work. Belongs to the loop.
class Auth {
 public:
  Auth(store::Repository& repository, const Clock& clock) : repository_(repository), clock_(clock) {}

  // unauthenticated: missing or unknown.
  Task<Result<store::Team>> team_of(std::optional<std::string> api_key);

 private:
  struct Known {
    store::Team team;
    Monotonic until;
  };
  store::Repository& repository_;
  const Clock& clock_;
  std::map<std::string, Known> known_;
};

}  // namespace space::control
