// What the node says of snapshots, lineage and recovery, in the words of the API. Pure.
//
// Every member is checked and made anew: texts are bounded, names are of the known ones, ids and times are
// some. internal: the node said something else, or left out what it must say.
#pragma once

#include <string>

#include "base/json.h"
#include "control/snapshot_requests.h"
#include "store/records.h"

namespace space::control {

Result<JsonObject> snapshot_json(const JsonObject& from_node);
Result<JsonObject> snapshots_json(const JsonObject& from_node);
Result<JsonObject> history_json(const JsonObject& from_node);
// Paths are bytes of a guest's choosing.
Result<JsonObject> diff_json(const JsonObject& from_node, std::int64_t limit);

// Answer of the recovery routes. `from_node`: the sandbox object, empty when there is no node.
Result<JsonObject> recovery_json(const store::Sandbox& row, const JsonObject& from_node);
// What the node knows of a sandbox's lineage, added to what /v1 shows of it; null without a node.
Result<void> add_lineage(JsonObject& json, const store::Sandbox& row, const JsonObject& from_node);

}  // namespace space::control
