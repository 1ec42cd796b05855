// E2B's network options as an EgressPolicy: allow beats deny, names count whatever address was dialled. Pure.
#pragma once

#include <optional>

#include "base/json.h"
#include "core/egress_policy.h"

namespace space {

// `network`: {"allowOut","denyOut"} of a request, other members are not looked at; nullptr: none was given.
// allow_internet_access false is denyOut of everything. invalid_argument in E2B's words where it has some.
//   everything denied and nothing allowed by allow_internet_access  -> deny_all
//   everything denied (0.0.0.0/0 or ::/0)                            -> restricted
//   otherwise, or everything allowed                                 -> allow_all
// Names get ports 80 and 443, addresses all.
Result<EgressPolicy> egress_from_e2b(const JsonObject* network, std::optional<bool> allow_internet_access);

}  // namespace space
