// The answer of the control call `activity`, and of GET /activity inside the guest.
#pragma once

#include "base/json.h"
#include "guest/guest_state.h"

namespace space::guest {

// [{"name","expires_in_ms"}], those held now.
JsonArray leases_json(GuestState& state);
// {"cpu_used_us","streams","leases","wake_at_us"}
JsonObject activity_json(GuestState& state, std::uint64_t cpu_used_us, std::size_t streams);

}  // namespace space::guest
