// Sqlite: SQLite's C API with an owner for every handle and our errors. One connection belongs to one thread.
//
//   SPACE_TRY(auto db, Sqlite::open(path));
//   SPACE_TRY(auto transaction, db.begin());
//   SPACE_TRY(auto insert, db.prepare("INSERT INTO sandboxes(id, vcpus) VALUES (?, ?)"));
//   SPACE_CHECK(insert.bind(id, 2).run());
//   SPACE_CHECK(transaction.commit());
//
// Errors: a broken constraint is conflict, a full disk exhausted, a busy database unavailable, all else
// internal. Messages carry SQLite's words, never bound values.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace space {

// A prepared statement. Columns are valid until the next step, reset or bind.
class Statement {
 public:
  // Resets, then binds the parameters in order from the first. A failed bind is reported by the step that
  // follows.
  template <class... Values>
  Statement& bind(const Values&... values) {
    restart();
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  Result<bool> step();  // true: a row is there; false: done
  Result<void> run();   // steps to the end, ignores rows, resets
  // One row or none, then reset: read(statement) is called on the row.
  template <class Read>
  auto one(Read read) -> Result<std::optional<std::invoke_result_t<Read, Statement&>>> {
    SPACE_TRY(const bool found, step());
    std::optional<std::invoke_result_t<Read, Statement&>> row;
    if (found) row.emplace(read(*this));
    restart();
    return row;
  }

  bool is_null(int column) const;
  std::int64_t integer(int column) const;   // 0 for NULL
  std::string_view text(int column) const;  // empty for NULL; copy it to keep it
  std::optional<std::int64_t> optional_integer(int column) const;
  std::optional<std::string> optional_text(int column) const;

 private:
  friend class Sqlite;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void restart();
  void bind_integer(int index, std::int64_t value);
  void bind_text(int index, std::string_view value);  // copied
  void bind_null(int index);
  template <std::integral T>
  void bind_one(int index, T value) {
    bind_integer(index, static_cast<std::int64_t>(value));
  }
  void bind_one(int index, std::string_view value) { bind_text(index, value); }
  void bind_one(int index, const char* value) { bind_text(index, value); }
  void bind_one(int index, const std::string& value) { bind_text(index, value); }
  void bind_one(int index, std::nullopt_t) { bind_null(index); }
  template <class T>
  void bind_one(int index, const std::optional<T>& value) {
    if (value)
      bind_one(index, *value);
    else
      bind_null(index);
  }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_status_ = 0;
};

// BEGIN IMMEDIATE … COMMIT; rolled back by the destructor when not committed.
class Transaction {
 public:
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<void> commit();  // durable on return

 private:
  friend class Sqlite;
  explicit Transaction(sqlite3* db) : db_(db) {}
  sqlite3* db_;
};

class Sqlite {
 public:
  // Creates the file with mode 0600 when it does not exist (its folder must). WAL, synchronous=FULL: a
  // committed transaction survives power loss. Foreign keys on, busy timeout 5 s. ":memory:" for tests.
  static Result<Sqlite> open(const std::string& path);

  Result<Statement> prepare(std::string_view sql);
  Result<void> execute(const std::string& sql);  // any number of statements, no parameters
  Result<Transaction> begin();
  std::int64_t changes() const;  // rows touched by the last statement

  // The schema's version (PRAGMA user_version), for migrations.
  Result<std::int64_t> schema_version();
  Result<void> set_schema_version(std::int64_t version);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Sqlite(sqlite3* db) : db_(db) {}
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace space
