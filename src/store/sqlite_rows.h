// Rows of SQLite <-> records: column lists and readers, in one order. Inside of SqliteRepository only.
#pragma once

#include <string>

#include "store/records.h"
#include "store/sqlite.h"

namespace space::store {

inline constexpr std::string_view template_columns =
    "id, name, digest, vcpus, memory_mib, disk_mib, default_user, default_workdir, updated_at";
Template read_template(const Statement& row);

inline constexpr std::string_view sandbox_columns =
    "id, team, state, wanted, generation, template_id, template_name, template_digest, vcpus, memory_mib, "
    "disk_mib, metadata, allow_internet_access, network, allow_public_traffic, mask_request_host, "
    "access_token, "
    "traffic_token, timeout_s, started_at, end_at, ended_at, reason, pause_on_timeout, pause_keeps_memory, "
    "auto_resume, idle_pause_s, hot_keep_s, default_user, default_workdir, "
    "schedule, recovery, origin_sandbox, origin_number, egress, egress_generation";
// internal: the row holds what this program never wrote.
Result<Sandbox> read_sandbox(const Statement& row);

inline constexpr std::string_view snapshot_template_columns =
    "build, id, team, name, tag, created_at, snapshot_sandbox, snapshot_number, vcpus, memory_mib, disk_mib, "
    "base_id, base_name, base_digest, default_user, default_workdir";
SnapshotTemplate read_snapshot_template(const Statement& row);

std::int64_t to_ms(Wall time);
Wall from_ms(std::int64_t ms);
std::string to_json_text(const std::map<std::string, std::string>& pairs);
std::string to_json_text(const std::vector<State>& states);
std::string to_json_text(const std::optional<SnapshotSchedule>& schedule);  // "" = none

}  // namespace space::store
