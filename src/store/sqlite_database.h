// Database: what the database thread of SqliteRepository owns. Inside of store only.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "store/sqlite.h"

namespace space::store {

// Statements are prepared once and kept under their text.
class Database {
 public:
  explicit Database(Sqlite db) : db_(std::move(db)) {}

  Result<Statement*> prepared(const std::string& sql) {
    if (const auto found = statements_.find(sql); found != statements_.end()) return &found->second;
    SPACE_TRY(auto statement, db_.prepare(sql));
    return &statements_.emplace(sql, std::move(statement)).first->second;
  }

  Result<Transaction> begin() { return db_.begin(); }

  template <class... Values>
  Result<void> run(const std::string& sql, const Values&... values) {
    SPACE_TRY(Statement * statement, prepared(sql));
    return statement->bind(values...).run();
  }

  // Every row, read by `read`: a record or a Result of one. Steps to the end, which is also what commits an
  // UPDATE … RETURNING.
  template <class Record, class Read, class... Values>
  Result<std::vector<Record>> rows(const std::string& sql, Read read, const Values&... values) {
    SPACE_TRY(Statement * statement, prepared(sql));
    statement->bind(values...);
    std::vector<Record> records;
    while (true) {
      SPACE_TRY(const bool row, statement->step());
      if (!row) return records;
      Result<Record> record = read(*statement);
      if (!record) return std::unexpected(std::move(record).error());
      records.push_back(*std::move(record));
    }
  }

  template <class Record, class Read, class... Values>
  Result<std::optional<Record>> row(const std::string& sql, Read read, const Values&... values) {
    SPACE_TRY(auto records, rows<Record>(sql, read, values...));
    if (records.empty()) return std::optional<Record>();
    return std::optional<Record>(std::move(records.front()));
  }

 private:
  Sqlite db_;
  std::unordered_map<std::string, Statement> statements_;
};

}  // namespace space::store
