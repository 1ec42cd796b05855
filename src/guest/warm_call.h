// `warm` (api/channel.md): has the guest load, and the daemon do, what a client's first command would have
// to.
#pragma once

#include "guest/control_surroundings.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"

namespace space::guest {

inline constexpr Millis warm_time{20'000};

// {"ran":[name]}: what ended well. `everything`: python3 and node too, where they are. A command comes
// through the daemon's own HTTP API, as a client's does.
Task<JsonObject> run_warm(GuestState& state, const ControlSurroundings& around, bool everything);

}  // namespace space::guest
