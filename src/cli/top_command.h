// space top: what the running sandboxes use, again and again.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"

namespace space::cli {

int command_top(const CommonOptions& common, const TopOptions& options);

// Pure. A row for each of /v1/stats, the most of what `sort` ("cpu" or "mem") names first.
std::vector<Row> top_rows(const JsonArray& sandboxes, std::string_view sort);

}  // namespace space::cli
