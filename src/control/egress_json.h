// What a node says of a sandbox's way out, as clients read it: checked and made anew. Pure; fuzzed.
// internal: the node said something that is none of it.
#pragma once

#include "base/json.h"
#include "store/records.h"

namespace space::control {

// {"policy","generation","network","counters"}. `object`: the sandbox as its node has it, {} without one;
// `stats`: of its gateway, {} without.
Result<JsonObject> egress_json(const store::Egress& egress, const JsonObject& object,
                               const JsonObject& stats);
// {"allowed","reason","rule","explanation","host","port","addresses","generation"}
Result<JsonObject> egress_test_json(const JsonObject& answer);
// {"entries":[…],"next","gap"}
Result<JsonObject> egress_log_json(const JsonObject& answer);

}  // namespace space::control
