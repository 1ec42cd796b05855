// E2B's network options, in create and in a change: checked as a whole, kept as given, and what they mean as
// an egress policy (core/egress_e2b.h). Pure.
//
// What would change traffic in ways that nothing here does (rules, egressProxy, httpsPorts) is refused:
// accepting it would be a promise that nobody keeps.
#pragma once

#include "base/json.h"
#include "control/egress_request.h"
#include "store/records.h"

namespace space::control {

// `body` of a create: fills the members of `options` that speak of the network, and says what they ask for.
// invalid_argument names the entry, in E2B's words where E2B has some.
Result<EgressWish> read_network(const JsonObject& body, store::SandboxOptions& options);

// The body of PUT /sandboxes/{id}/network. It replaces: what is not named is cleared.
struct NetworkChange {
  EgressWish wish;
  std::optional<bool> allow_internet_access;
  JsonObject lists;  // allowOut and denyOut as given
};
Result<NetworkChange> parse_network_change(std::string_view body);
// SandboxOptions::network after it: the lists, and what only a create says as it was.
std::string changed_network(const std::string& before, const JsonObject& lists);

}  // namespace space::control
