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

TEST(SqliteMigrations, AreNumberedWithoutGaps) {
  int expected = 1;
  for (const Migration& migration : sqlite_migrations()) EXPECT_EQ(migration.number, expected++);
}

}  // namespace
}  // namespace space::store
