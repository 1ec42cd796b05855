// GuestWake: what a guest is told after it stood still, in one call (api/channel.md). Fresh entropy and the
// time go along by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sandboxd/guest_init.h"

namespace space {

struct GuestWake {
  std::optional<std::string> identity;  // its id, where it became another sandbox
  std::optional<GuestInit> init;
  std::optional<std::int64_t> generation;  // it was restored
  bool hooks = false;                      // /etc/space/post-restore.d
  bool reseed = true;                      // its memory may have a twin
  bool thaw = true;
};

JsonObject to_json(GuestInit init);
JsonObject to_json(GuestWake wake);

}  // namespace space
