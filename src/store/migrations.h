// Migrations: numbered steps of a schema, each applied once, in order, in a transaction of its own. What was
// applied is recorded with a checksum: a step edited later, or a database of a newer version, is refused
// instead of guessed about.
#pragma once

#include <span>
#include <string_view>

#include "store/sqlite.h"

namespace space::store {

struct Migration {
  int number;             // 1, 2, 3, …
  std::string_view name;  // what it does, for people
  std::string_view sql;   // never edited once released
};

// conflict: the database does not fit these migrations; the message says how.
Result<void> migrate(Sqlite& db, std::span<const Migration> migrations);

// The schema of SqliteRepository.
std::span<const Migration> sqlite_migrations();

}  // namespace space::store
