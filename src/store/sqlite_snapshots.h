// The snapshot templates of SqliteRepository, on its thread: what repository.h says of each. Inside of store
// only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/records.h"
#include "store/sqlite_database.h"

namespace space::store::snapshots {

Result<SnapshotTemplate> add(Database& db, SnapshotTemplate row);
Result<std::optional<SnapshotTemplate>> find(Database& db, const std::string& team,
                                             const std::string& id_or_name, const std::string& tag);
Result<SnapshotTemplatePage> list(Database& db, const SnapshotTemplateQuery& query);
Result<std::vector<SnapshotTemplate>> remove(Database& db, const std::string& team,
                                             const std::string& id_or_name, const std::string& tag);
Result<std::vector<SnapshotTemplate>> remove_replaced(Database& db);
Result<void> require(Database& db, std::int64_t build);  // not_found: it is gone
Result<std::set<SnapshotId>> published(Database& db);

}  // namespace space::store::snapshots
