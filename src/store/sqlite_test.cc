#include "store/sqlite.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace space {
namespace {

class SqliteTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/space-sqlite-XXXXXX";
    folder_ = mkdtemp(pattern);
    path_ = folder_ + "/test.db";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Sqlite open() {
    auto db = Sqlite::open(path_);
    EXPECT_TRUE(db) << db.error().message;
    return std::move(*db);
  }

  std::string folder_, path_;
};

TEST_F(SqliteTest, KeepsEveryTypeAcrossAReopen) {
  {
    Sqlite db = open();
    ASSERT_TRUE(db.execute("CREATE TABLE t(i INTEGER, s TEXT, n TEXT, o INTEGER)"));
    auto insert = db.prepare("INSERT INTO t VALUES (?, ?, ?, ?)");
    ASSERT_TRUE(insert);
    const std::optional<int> absent;
    ASSERT_TRUE(insert->bind(std::int64_t{1} << 62, std::string("a\0b", 3), std::nullopt, absent).run());
    ASSERT_TRUE(insert->bind(-1, "", "x", std::optional(7)).run());
  }
  Sqlite db = open();
  auto select = db.prepare("SELECT * FROM t ORDER BY i DESC");
  ASSERT_TRUE(select);
  ASSERT_TRUE(select->step().value());
  EXPECT_EQ(select->integer(0), std::int64_t{1} << 62);
  EXPECT_EQ(select->text(1), std::string_view("a\0b", 3));
  EXPECT_TRUE(select->is_null(2));
  EXPECT_FALSE(select->optional_integer(3));
  ASSERT_TRUE(select->step().value());
  EXPECT_EQ(select->integer(0), -1);
  EXPECT_FALSE(select->is_null(1));
  EXPECT_EQ(select->optional_text(2), "x");
  EXPECT_EQ(select->optional_integer(3), 7);
  EXPECT_FALSE(select->step().value());
}

TEST_F(SqliteTest, FileIsPrivateAndDurable) {
  Sqlite db = open();
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto text_of = [&](const char* pragma) {
    auto statement = db.prepare(pragma);
    return statement->one([](Statement& row) { return std::string(row.text(0)); }).value().value();
  };
  EXPECT_EQ(text_of("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(text_of("PRAGMA synchronous"), "2");
  EXPECT_EQ(text_of("PRAGMA temp_store"), "2");
}

TEST_F(SqliteTest, TransactionWithoutCommitLeavesNothing) {
  Sqlite db = open();
  ASSERT_TRUE(db.execute("CREATE TABLE t(i INTEGER)"));
  {
    auto transaction = db.begin();
    ASSERT_TRUE(transaction);
    ASSERT_TRUE(db.execute("INSERT INTO t VALUES (1)"));
  }
  {
    auto transaction = db.begin();
    ASSERT_TRUE(db.execute("INSERT INTO t VALUES (2)"));
    ASSERT_TRUE(transaction->commit());
  }
  auto select = db.prepare("SELECT group_concat(i) FROM t");
  EXPECT_EQ(select->one([](Statement& row) { return std::string(row.text(0)); }).value(), "2");
}

TEST_F(SqliteTest, ErrorsHaveTheirCodes) {
  Sqlite db = open();
  ASSERT_TRUE(db.execute("CREATE TABLE t(i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"));
  auto insert = db.prepare("INSERT INTO t VALUES (?)");
  EXPECT_EQ(insert->bind(1).run().error().code, Code::conflict);
  EXPECT_TRUE(insert->bind(2).run());                                // usable after a failure
  EXPECT_EQ(insert->bind(1, 2).run().error().code, Code::internal);  // more values than parameters
  EXPECT_EQ(db.prepare("SELEKT").error().code, Code::internal);
  ASSERT_TRUE(db.execute("PRAGMA max_page_count=3; CREATE TABLE big(b BLOB)"));
  EXPECT_EQ(db.execute("INSERT INTO big VALUES (zeroblob(1000000))").error().code, Code::exhausted);
  EXPECT_EQ(Sqlite::open(folder_ + "/missing/x.db").error().code, Code::not_found);
}

TEST_F(SqliteTest, SchemaVersionIsKept) {
  EXPECT_EQ(open().schema_version().value(), 0);
  ASSERT_TRUE(open().set_schema_version(3));
  EXPECT_EQ(open().schema_version().value(), 3);
}

TEST_F(SqliteTest, OneAnswersNothingForNoRow) {
  Sqlite db = open();
  auto statement = db.prepare("SELECT 1 WHERE 0");
  const auto row = statement->one([](Statement& s) { return s.integer(0); });
  ASSERT_TRUE(row);
  EXPECT_FALSE(row->has_value());
}

}  // namespace
}  // namespace space
