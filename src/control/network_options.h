// The `network` member of a create request: checked as a whole, kept as given. Pure.
//
// Sandboxes have no way out at all at present, so what denies or allows traffic is held anyway and only
// reported back. What would change traffic (rules, egressProxy, httpsPorts) is refused: accepting it would be
// a promise that nothing keeps.
#pragma once

#include "base/json.h"
#include "store/records.h"

namespace space::control {

// Fills the members of `options` that speak of the network. invalid_argument names the entry.
Result<void> read_network(const JsonObject& network, store::SandboxOptions& options);

}  // namespace space::control
