// Logs, figures and activity of sandboxes as clients read them, made of what the node answers. Pure.
#pragma once

#include "base/json.h"
#include "control/log_query.h"
#include "store/records.h"

namespace space::control {

// {"logs":[…]}; v1 has every line in two forms.
JsonObject logs_json(const JsonObject& node_answer, LogRoute route);
// One entry of /v1/stats. What the node does not know is null.
JsonObject stats_json(const store::Sandbox& row, const JsonObject& node_answer);
// What holds a sandbox. internal when the node's answer does not say it: silence is no wall.
Result<JsonObject> isolation_json(const std::string& id, const JsonObject& node_answer);

}  // namespace space::control
