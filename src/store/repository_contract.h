// What every Repository promises: the fixture of its tests, and the implementations they run over. An
// implementation joins by one line of contract_implementations.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/sqlite_repository.h"

namespace space::store {

// Makes repositories over storage that outlives them, so that `open` twice is a restart.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual Result<std::unique_ptr<Repository>> open() = 0;
};

class SqliteStorage final : public Storage {
 public:
  SqliteStorage() {
    char pattern[] = "/tmp/space-store-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~SqliteStorage() override { std::filesystem::remove_all(folder_); }
  Result<std::unique_ptr<Repository>> open() override {
    return open_sqlite_repository(folder_ + "/control.db");
  }

 private:
  std::string folder_;
};

struct Implementation {
  const char* name;
  std::unique_ptr<Storage> (*make)();
};

constexpr Wall at(std::int64_t seconds) {
  return Wall(std::chrono::seconds(1'700'000'000 + seconds));
}

class RepositoryContract : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    reopen();
    ASSERT_TRUE(run(repository_->add_team({"t1", "default"})));
    ASSERT_TRUE(run(repository_->add_team({"t2", "other"})));
  }

  void reopen() {
    repository_.reset();
    auto opened = storage_->open();
    ASSERT_TRUE(opened) << opened.error().message;
    repository_ = *std::move(opened);
  }

  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(loop_, std::move(task), boost::asio::use_future);
    loop_.restart();
    loop_.run();
    return future.get();
  }

  static Sandbox sandbox(const std::string& id, const std::string& team = "t1", int started_s = 0) {
    Sandbox row;
    row.id = id;
    row.team = team;
    row.template_id = "tid";
    row.template_name = "base";
    row.template_digest = std::string(64, 'a');
    row.access_token = "token of " + id;
    row.timeout_s = 300;
    row.started_at = at(started_s);
    row.end_at = at(started_s + 300);
    return row;
  }

  Sandbox add(Sandbox row) {
    EXPECT_TRUE(run(repository_->add_sandbox(row)));
    return row;
  }

  std::vector<std::string> ids(SandboxQuery query) {
    std::vector<std::string> found;
    auto page = run(repository_->list_sandboxes(std::move(query)));
    EXPECT_TRUE(page) << page.error().message;
    for (const Sandbox& row : page->sandboxes) found.push_back(row.id);
    return found;
  }

  static StateChange running_since(int started_s, int end_s) {
    return {.state = State::running, .started_at = at(started_s), .end_at = at(end_s)};
  }

  static SandboxQuery query() {
    SandboxQuery q;
    q.team = "t1";
    q.states = {State::creating, State::running};
    return q;
  }

  boost::asio::io_context loop_{1};
  std::unique_ptr<Storage> storage_ = GetParam().make();
  std::unique_ptr<Repository> repository_;
};

using Ids = std::vector<std::string>;

inline auto contract_implementations() {
  return testing::Values(
      Implementation{"Sqlite", [] -> std::unique_ptr<Storage> { return std::make_unique<SqliteStorage>(); }});
}
inline std::string contract_name(const testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}

}  // namespace space::store
