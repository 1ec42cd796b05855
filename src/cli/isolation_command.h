// space isolation: what holds a sandbox, layer by layer.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/options.h"

namespace space::cli {

// 0 when no layer is off, 1 otherwise.
int command_isolation(const CommonOptions& common, const std::string& sandbox);

// Pure, of the body of /v1/sandboxes/{id}/isolation. The summary first, then a line a layer; under TCG what
// that means.
std::vector<std::string> isolation_lines(const JsonObject& isolation);
// Also when it does not say what its layers are.
bool has_open_layer(const JsonObject& isolation);

// Pure, of the body of /v1/node: what `space up` says of its sandboxes' walls. Empty where both stand.
std::string wall_notice(const JsonObject& node);

}  // namespace space::cli
