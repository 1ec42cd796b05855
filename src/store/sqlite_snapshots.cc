#include "store/sqlite_snapshots.h"

#include <fmt/format.h>

#include "store/sqlite_rows.h"

namespace space::store::snapshots {
namespace {

constexpr std::string_view matches =
    "team = ?1 AND (id = ?2 OR (name = ?2 AND name <> '')) AND (?3 = '' OR tag = ?3)";
constexpr std::string_view is_newest =
    "NOT EXISTS (SELECT 1 FROM snapshot_templates AS newer WHERE newer.id = snapshot_templates.id"
    " AND newer.tag = snapshot_templates.tag AND newer.build > snapshot_templates.build)";
// Said as sandboxes_begun is, or its index would not serve.
constexpr std::string_view began_as_it =
    "FROM sandboxes WHERE origin_sandbox = snapshot_sandbox AND origin_number = snapshot_number"
    " AND ended_at IS NULL AND origin_sandbox <> ''";
constexpr std::size_t named_max = 3;  // sandboxes in the message of a conflict

std::string text_of(const Statement& row) {
  return std::string(row.text(0));
}

// Why not, if sandboxes stand in the way.
Result<void> check_unused(Database& db, const std::string& team, const std::string& id_or_name,
                          const std::string& tag) {
  static const std::string sql = fmt::format(
      "SELECT sandboxes.id FROM snapshot_templates JOIN sandboxes ON origin_sandbox = snapshot_sandbox"
      " AND origin_number = snapshot_number AND ended_at IS NULL AND origin_sandbox <> ''"
      " WHERE snapshot_templates.team = ?1 AND (snapshot_templates.id = ?2 OR (name = ?2 AND name <> ''))"
      " AND (?3 = '' OR tag = ?3) ORDER BY sandboxes.id LIMIT {}",
      named_max + 1);
  SPACE_TRY(const auto users, db.rows<std::string>(sql, text_of, team, id_or_name, tag));
  if (users.empty()) return {};
  std::string list = users.front();
  for (std::size_t i = 1; i < std::min(users.size(), named_max); ++i) list += ", " + users[i];
  if (users.size() > named_max) list += " and others";
  return fail(Code::conflict, "running or paused sandboxes began as it: {}", list);
}

}  // namespace

Result<SnapshotTemplate> add(Database& db, SnapshotTemplate row) {
  static const std::string insert = fmt::format(
      "INSERT INTO snapshot_templates({0}) VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) RETURNING {0}",
      snapshot_template_columns);
  SPACE_TRY(auto transaction, db.begin());
  if (!row.name.empty()) {
    SPACE_TRY(auto id, db.row<std::string>("SELECT id FROM snapshot_templates WHERE team = ? AND name = ?"
                                           " AND name <> '' LIMIT 1",
                                           text_of, row.team, row.name));
    if (id) row.id = *std::move(id);
  }
  SPACE_TRY(auto stored,
            db.row<SnapshotTemplate>(insert, read_snapshot_template, row.id, row.team, row.name, row.tag,
                                     to_ms(row.created_at), row.snapshot.sandbox, row.snapshot.number,
                                     row.shape.vcpus, row.shape.memory_mib, row.shape.disk_mib, row.base_id,
                                     row.base_name, row.base_digest, row.default_user, row.default_workdir));
  if (!stored) return fail(Code::internal, "a snapshot template was not stored");
  SPACE_CHECK(transaction.commit());
  return *std::move(stored);
}

// An id is asked for first: a name may look like one.
Result<std::optional<SnapshotTemplate>> find(Database& db, const std::string& team,
                                             const std::string& id_or_name, const std::string& tag) {
  static const std::string sql =
      fmt::format("SELECT {} FROM snapshot_templates WHERE {} ORDER BY id = ?2 DESC, build DESC LIMIT 1",
                  snapshot_template_columns, matches);
  return db.row<SnapshotTemplate>(sql, read_snapshot_template, team, id_or_name, tag);
}

Result<SnapshotTemplatePage> list(Database& db, const SnapshotTemplateQuery& query) {
  static const std::string sql = fmt::format(
      "SELECT {} FROM snapshot_templates WHERE team = ?1"
      " AND (?2 = '' OR id = ?2 OR name = ?2) AND (?3 = '' OR tag = ?3)"
      " AND (?4 = '' OR snapshot_sandbox = ?4) AND (?5 IS NULL OR build < ?5) AND {}"
      " ORDER BY build DESC LIMIT ?6",
      snapshot_template_columns, is_newest);
  SPACE_TRY(auto rows, db.rows<SnapshotTemplate>(sql, read_snapshot_template, query.team, query.id_or_name,
                                                 query.tag, query.sandbox, query.before, query.limit + 1));
  SnapshotTemplatePage page{std::move(rows), false};
  page.more = page.snapshots.size() > query.limit;
  if (page.more) page.snapshots.pop_back();
  return page;
}

Result<std::vector<SnapshotTemplate>> remove(Database& db, const std::string& team,
                                             const std::string& id_or_name, const std::string& tag) {
  static const std::string sql =
      fmt::format("DELETE FROM snapshot_templates WHERE {} RETURNING {}", matches, snapshot_template_columns);
  SPACE_TRY(auto transaction, db.begin());
  SPACE_CHECK(check_unused(db, team, id_or_name, tag));
  SPACE_TRY(auto removed, db.rows<SnapshotTemplate>(sql, read_snapshot_template, team, id_or_name, tag));
  SPACE_CHECK(transaction.commit());
  return removed;
}

Result<std::vector<SnapshotTemplate>> remove_replaced(Database& db) {
  static const std::string sql =
      fmt::format("DELETE FROM snapshot_templates WHERE NOT ({}) AND NOT EXISTS (SELECT 1 {}) RETURNING {}",
                  is_newest, began_as_it, snapshot_template_columns);
  return db.rows<SnapshotTemplate>(sql, read_snapshot_template);
}

Result<void> require(Database& db, std::int64_t build) {
  SPACE_TRY(const auto row,
            db.row<std::string>("SELECT id FROM snapshot_templates WHERE build = ?", text_of, build));
  if (!row) return fail(Code::not_found, "the snapshot was deleted or replaced meanwhile");
  return {};
}

Result<std::set<SnapshotId>> published(Database& db) {
  SPACE_TRY(const auto rows,
            db.rows<SnapshotId>("SELECT DISTINCT snapshot_sandbox, snapshot_number FROM snapshot_templates",
                                [](const Statement& row) {
                                  return SnapshotId{std::string(row.text(0)),
                                                    static_cast<std::uint64_t>(row.integer(1))};
                                }));
  return std::set<SnapshotId>(rows.begin(), rows.end());
}

}  // namespace space::store::snapshots
