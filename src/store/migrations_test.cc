#include "store/migrations.h"

#include <gtest/gtest.h>

namespace space::store {
namespace {

constexpr Migration first{1, "first", "CREATE TABLE a (x INTEGER) STRICT"};
constexpr Migration second{2, "second", "CREATE TABLE b (x INTEGER) STRICT"};

class MigrationsTest : public testing::Test {
 protected:
  Result<void> run(std::vector<Migration> migrations) { return migrate(db_, migrations); }
  bool has_table(const std::string& name) { return db_.execute("SELECT 1 FROM " + name).has_value(); }
  Sqlite db_ = *Sqlite::open(":memory:");
};

TEST_F(MigrationsTest, AppliesWhatIsMissingOnce) {
  ASSERT_TRUE(run({first}));
  ASSERT_TRUE(run({first}));
  EXPECT_FALSE(has_table("b"));
  ASSERT_TRUE(run({first, second}));
  EXPECT_TRUE(has_table("a"));
  EXPECT_TRUE(has_table("b"));
}

TEST_F(MigrationsTest, RefusesAnEditedStep) {
  ASSERT_TRUE(run({first}));
  const auto edited = run({{1, "first", "CREATE TABLE a (x INTEGER, y INTEGER) STRICT"}});
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().code, Code::conflict);
}

TEST_F(MigrationsTest, RefusesANewerDatabase) {
  ASSERT_TRUE(run({first, second}));
  const auto older = run({first});
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::conflict);
}

TEST_F(MigrationsTest, AStepThatFailsLeavesNothing) {
  const auto failed = run({first, {2, "broken", "CREATE TABLE b (x INTEGER) STRICT; CREATE NONSENSE"}});
  ASSERT_FALSE(failed);
  EXPECT_TRUE(has_table("a"));
  EXPECT_FALSE(has_table("b"));
  ASSERT_TRUE(run({first, second}));
}

// A sandbox that an older version made is killed at its timeout, as it was promised.
TEST_F(MigrationsTest, OldSandboxesKeepTheirLife) {
  const auto all = sqlite_migrations();
  ASSERT_GE(all.size(), 2U);
  ASSERT_TRUE(migrate(db_, all.first(1)));
  ASSERT_TRUE(
      db_.execute("INSERT INTO teams VALUES ('t', 'default');"
                  "INSERT INTO sandboxes VALUES ('i1', 't', 'running', 'running', 1, 'tid', 'base', 'd', 1, "
                  "512, 4096, '{}',"
                  " NULL, '', 1, '', 'token', '', 300, 0, 300000, NULL, '')"));
  const auto upgraded = migrate(db_, all);
  ASSERT_TRUE(upgraded) << upgraded.error().message;
  auto row = db_.prepare(
      "SELECT pause_on_timeout, pause_keeps_memory, auto_resume, idle_pause_s, access_token"
      " FROM sandboxes WHERE id = 'i1'");
  ASSERT_TRUE(row);
  ASSERT_TRUE(*row->step());
  EXPECT_EQ(row->integer(0), 0);
  EXPECT_EQ(row->integer(1), 1);
  EXPECT_EQ(row->integer(2), 0);
  EXPECT_TRUE(row->is_null(3));
  EXPECT_EQ(row->text(4), "token");
}

TEST(SqliteMigrations, AreNumberedWithoutGaps) {
  int expected = 1;
  for (const Migration& migration : sqlite_migrations()) EXPECT_EQ(migration.number, expected++);
}

}  // namespace
}  // namespace space::store
