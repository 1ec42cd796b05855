// GuestInit: what a new guest is told and the node must not keep. Lives from a create's request until the
// guest acknowledged it.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/secret.h"

namespace space {

struct GuestInit {
  SecretText access_token;
  Secret<JsonObject> env;  // names to texts
  bool adds_env = false;   // to what the guest has from a snapshot; else it takes its place
  std::optional<std::string> default_user;
  std::optional<std::string> default_workdir;
};

}  // namespace space
