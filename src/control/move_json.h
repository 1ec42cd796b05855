// What the node says of a sandbox and of warm pools, in the words of the API. Pure.
//
// internal: the node left out what it must say.
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "store/records.h"

namespace space::control {

// What only /v1 shows of a sandbox. `from_node` is empty when there is no node: then its members are null.
Result<void> add_node_view(JsonObject& json, const store::Sandbox& row, const JsonObject& from_node);
JsonObject policy_json(const store::PausePolicy& policy);
// `names`: of templates, by digest. A pool whose template has no name any more shows its digest only.
Result<JsonObject> pools_json(const JsonObject& from_node, const std::map<std::string, std::string>& names);

}  // namespace space::control
