#include "store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include "base/fd.h"

namespace space {
namespace {

constexpr int busy_timeout_ms = 5000;

Code code_of(int status) {
  switch (status & 0xff) {
    case SQLITE_CONSTRAINT:
      return Code::conflict;
    case SQLITE_FULL:
      return Code::exhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::unavailable;
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return Code::permission_denied;
    default:
      return Code::internal;
  }
}

std::unexpected<Error> fail_sqlite(sqlite3* db, std::string_view what) {
  return fail(code_of(sqlite3_extended_errcode(db)), "{}: {}", what, sqlite3_errmsg(db));
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::restart() {
  sqlite3_reset(statement_.get());
  bind_status_ = SQLITE_OK;
}

void Statement::bind_integer(int index, std::int64_t value) {
  if (int status = sqlite3_bind_int64(statement_.get(), index, value)) bind_status_ = status;
}

void Statement::bind_text(int index, std::string_view value) {
  const char* data = value.data() ? value.data() : "";  // a null pointer would bind NULL
  if (int status =
          sqlite3_bind_text64(statement_.get(), index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8))
    bind_status_ = status;
}

void Statement::bind_null(int index) {
  if (int status = sqlite3_bind_null(statement_.get(), index)) bind_status_ = status;
}

Result<bool> Statement::step() {
  if (bind_status_ != SQLITE_OK)
    return fail(code_of(bind_status_), "bind a parameter: {}", sqlite3_errstr(bind_status_));
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return fail_sqlite(sqlite3_db_handle(statement_.get()), "run a statement");
  }
}

Result<void> Statement::run() {
  Result<bool> row = step();
  while (row && *row) row = step();
  sqlite3_reset(statement_.get());
  if (!row) return std::unexpected(std::move(row).error());
  return {};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (!data) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::optional<std::int64_t> Statement::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

std::optional<std::string> Statement::optional_text(int column) const {
  if (is_null(column)) return std::nullopt;
  return std::string(text(column));
}

Transaction::~Transaction() {
  if (db_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<void> Transaction::commit() {
  if (sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) return fail_sqlite(db_, "commit");
  db_ = nullptr;
  return {};
}

void Sqlite::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

Result<Sqlite> Sqlite::open(const std::string& path) {
  // SQLite would create the file by the umask; journals take the mode of the database file.
  if (path != ":memory:") SPACE_CHECK(open_fd(path, O_RDWR | O_CREAT, 0600));
  sqlite3* raw = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Sqlite db(raw);
  if (status != SQLITE_OK) return fail(code_of(status), "open database {}: {}", path, sqlite3_errstr(status));
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, busy_timeout_ms);
  // Its temporary files would be in folders that the daemons may not write.
  if (auto done = db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                             "PRAGMA temp_store=MEMORY");
      !done)
    return wrap(std::move(done).error(), "open database " + path);
  return db;
}

Result<Statement> Sqlite::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &statement, nullptr) != SQLITE_OK)
    return fail_sqlite(db_.get(), "prepare a statement");
  return Statement(statement);
}

Result<void> Sqlite::execute(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return fail_sqlite(db_.get(), "execute");
  return {};
}

Result<Transaction> Sqlite::begin() {
  SPACE_CHECK(execute("BEGIN IMMEDIATE"));
  return Transaction(db_.get());
}

std::int64_t Sqlite::changes() const {
  return sqlite3_changes64(db_.get());
}

Result<std::int64_t> Sqlite::schema_version() {
  SPACE_TRY(Statement statement, prepare("PRAGMA user_version"));
  SPACE_TRY(auto version, statement.one([](Statement& row) { return row.integer(0); }));
  return version.value_or(0);
}

Result<void> Sqlite::set_schema_version(std::int64_t version) {
  return execute(fmt::format("PRAGMA user_version={}", version));
}

}  // namespace space
