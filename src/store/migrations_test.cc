#include "store/migrations.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>

#include "store/sqlite_repository.h"

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

// A filled database of the version before this one, opened by this one.
TEST(SqliteMigrations, AnOlderDatabaseIsReadAndGoesOn) {
  char pattern[] = "/tmp/space-migrate-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  {
    auto db = Sqlite::open(folder + "/control.db");
    ASSERT_TRUE(db);
    ASSERT_TRUE(migrate(*db, sqlite_migrations().first(2)));
    ASSERT_TRUE(db->execute(
        "INSERT INTO teams VALUES ('t', 'default');"
        "INSERT INTO sandboxes VALUES ('i1', 't', 'paused', 'paused', 3, 'tid', 'base', 'd', 1, "
        "512, 4096, '{\"a\":\"b\"}', NULL, '', 1, '', 'token', '', 300, 0, 300000, NULL, '', 1, 1, "
        "0, 60, NULL, 'user', '/srv')"));
  }
  auto repository = open_sqlite_repository(folder + "/control.db");
  ASSERT_TRUE(repository) << repository.error().message;
  boost::asio::io_context loop(1);
  const auto run = [&loop](auto task) {
    auto future = boost::asio::co_spawn(loop, std::move(task), boost::asio::use_future);
    loop.restart();
    loop.run();
    return future.get();
  };
  const auto row = run((*repository)->find_sandbox("i1"));
  ASSERT_TRUE(row && *row);
  EXPECT_EQ((*row)->state, State::paused);
  EXPECT_EQ((*row)->access_token, "token");
  EXPECT_EQ((*row)->policy.idle_pause_s, 60);
  EXPECT_EQ((*row)->default_workdir, "/srv");
  EXPECT_EQ((*row)->schedule, std::nullopt);
  EXPECT_EQ((*row)->recovery, RecoveryPolicy::disk);
  EXPECT_EQ((*row)->origin, std::nullopt);
  EXPECT_EQ((*row)->egress, (Egress{R"({"mode":"deny_all"})", 0}));
  const auto changed = run((*repository)->set_schedule("i1", default_schedule()));
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->schedule, default_schedule());
  EXPECT_TRUE(run((*repository)->published_snapshots())->empty());
  repository->reset();
  std::filesystem::remove_all(folder);
}

TEST(SqliteMigrations, AreNumberedWithoutGaps) {
  int expected = 1;
  for (const Migration& migration : sqlite_migrations()) EXPECT_EQ(migration.number, expected++);
}

}  // namespace
}  // namespace space::store
