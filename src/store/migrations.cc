#include "store/migrations.h"

#include <fmt/format.h>

#include <vector>

#include "base/clock.h"
#include "base/sha256.h"

namespace space::store {
namespace {

struct Applied {
  std::int64_t number;
  std::string checksum;
};

Result<std::vector<Applied>> applied_migrations(Sqlite& db) {
  SPACE_CHECK(
      db.execute("CREATE TABLE IF NOT EXISTS migrations ("
                 "  number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,"
                 "  applied_at INTEGER NOT NULL) STRICT"));
  SPACE_TRY(auto select, db.prepare("SELECT number, checksum FROM migrations ORDER BY number"));
  std::vector<Applied> applied;
  while (true) {
    SPACE_TRY(const bool row, select.step());
    if (!row) return applied;
    applied.push_back({select.integer(0), std::string(select.text(1))});
  }
}

Result<void> apply(Sqlite& db, const Migration& migration) {
  SPACE_TRY(auto transaction, db.begin());
  SPACE_CHECK(db.execute(std::string(migration.sql)));
  SPACE_TRY(auto insert,
            db.prepare("INSERT INTO migrations(number, name, checksum, applied_at) VALUES (?, ?, ?, ?)"));
  const auto now_ms = system_clock().wall().time_since_epoch().count();
  SPACE_CHECK(insert.bind(migration.number, migration.name, sha256_hex(migration.sql), now_ms).run());
  return transaction.commit();
}

}  // namespace

Result<void> migrate(Sqlite& db, std::span<const Migration> migrations) {
  SPACE_TRY(const auto applied, applied_migrations(db));
  if (applied.size() > migrations.size())
    return fail(Code::conflict, "the database is of a newer version ({} migrations, this program knows {})",
                applied.size(), migrations.size());
  for (std::size_t i = 0; i < applied.size(); ++i)
    if (applied[i].number != migrations[i].number || applied[i].checksum != sha256_hex(migrations[i].sql))
      return fail(Code::conflict, "migration {} ({}) differs from what was applied to the database",
                  migrations[i].number, migrations[i].name);
  for (const Migration& migration : migrations.subspan(applied.size()))
    if (auto done = apply(db, migration); !done)
      return wrap(done.error(), fmt::format("migration {} ({})", migration.number, migration.name));
  return {};
}

}  // namespace space::store
