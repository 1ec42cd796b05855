// The query of GET /snapshots and its paging cursor; the body of a publication; published snapshots as the
// API shows them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "control/template_key.h"
#include "store/records.h"

namespace space::control {

// invalid_argument names the parameter. `team`: of who asks.
Result<store::SnapshotTemplateQuery> parse_snapshot_query(std::string_view query, const store::Team& team);
std::string encode_snapshot_cursor(std::int64_t build);  // opaque to clients

// nullopt: without a name. An empty body asks for that too.
Result<std::optional<SnapshotName>> parse_publish_request(std::string_view body, std::string_view team);

// E2B's members, and what `space` shows.
JsonObject published_json(const store::SnapshotTemplate& row, std::string_view team);

}  // namespace space::control
