// Snapshot templates, as every Repository keeps them.
#include "store/repository_contract.h"

namespace space::store {
namespace {

class SnapshotTemplateContract : public RepositoryContract {
 protected:
  static SnapshotTemplate build(std::string id, std::string name, SnapshotId snapshot,
                                std::string tag = "default", std::string team = "t1") {
    SnapshotTemplate row;
    row.id = std::move(id);
    row.team = std::move(team);
    row.name = std::move(name);
    row.tag = std::move(tag);
    row.created_at = at(5);
    row.snapshot = std::move(snapshot);
    row.shape = {2, 1024, 8192};
    row.base_id = "tid";
    row.base_name = "base";
    row.base_digest = std::string(64, 'a');
    row.default_user = "user";
    row.default_workdir = "/srv";
    return row;
  }
  SnapshotTemplate put(SnapshotTemplate row) {
    auto stored = run(repository_->add_snapshot_template(std::move(row)));
    EXPECT_TRUE(stored) << stored.error().message;
    return stored.value_or(SnapshotTemplate());
  }
  std::optional<SnapshotTemplate> found(std::string key, std::string tag = "default",
                                        std::string team = "t1") {
    auto row = run(repository_->find_snapshot_template(std::move(team), std::move(key), std::move(tag)));
    EXPECT_TRUE(row) << row.error().message;
    return row.value_or(std::nullopt);
  }
  std::vector<std::uint64_t> numbers(SnapshotTemplateQuery query) {
    std::vector<std::uint64_t> list;
    const auto page = run(repository_->list_snapshot_templates(std::move(query)));
    EXPECT_TRUE(page) << page.error().message;
    for (const SnapshotTemplate& row : page->snapshots) list.push_back(row.snapshot.number);
    return list;
  }
  static SnapshotTemplateQuery all() { return {.team = "t1", .sandbox = "", .id_or_name = "", .tag = ""}; }
  Sandbox begun(std::string id, SnapshotId origin) {
    Sandbox row = sandbox(id);
    row.origin = std::move(origin);
    return add(row);
  }
  Code refused(std::string key, std::string tag = "") {
    const auto removed = run(repository_->remove_snapshot_template("t1", std::move(key), std::move(tag)));
    return removed ? Code::internal : removed.error().code;
  }
};

using Numbers = std::vector<std::uint64_t>;

TEST_P(SnapshotTemplateContract, IsReadBackWhole) {
  const SnapshotTemplate stored = put(build("s1", "ready", {"i1", 3}, "v1"));
  EXPECT_GT(stored.build, 0);
  reopen();
  const auto read = found("ready", "v1");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->build, stored.build);
  EXPECT_EQ(read->id, "s1");
  EXPECT_EQ(read->team, "t1");
  EXPECT_EQ(read->name, "ready");
  EXPECT_EQ(read->tag, "v1");
  EXPECT_EQ(read->created_at, at(5));
  EXPECT_EQ(read->snapshot, (SnapshotId{"i1", 3}));
  EXPECT_EQ(read->shape, (Shape{2, 1024, 8192}));
  EXPECT_EQ(read->base_id, "tid");
  EXPECT_EQ(read->base_name, "base");
  EXPECT_EQ(read->base_digest, std::string(64, 'a'));
  EXPECT_EQ(read->default_user, "user");
  EXPECT_EQ(read->default_workdir, "/srv");
  EXPECT_TRUE(found("s1", "v1"));
  EXPECT_FALSE(found("ready"));
  EXPECT_FALSE(found("ready", "v1", "t2"));
  EXPECT_FALSE(found("s1", "v1", "t2"));
}

TEST_P(SnapshotTemplateContract, ANameUsedAgainIsTheSameTemplateAndMeansTheNewest) {
  put(build("s1", "ready", {"i1", 1}));
  EXPECT_EQ(put(build("s2", "ready", {"i2", 2})).id, "s1");
  EXPECT_EQ(put(build("s3", "ready", {"i1", 3}, "v2")).id, "s1");
  EXPECT_EQ(put(build("s4", "ready", {"i3", 4}, "default", "t2")).id, "s4");
  EXPECT_EQ(put(build("s5", "", {"i1", 5})).id, "s5");
  EXPECT_EQ(put(build("s6", "", {"i1", 6})).id, "s6");
  EXPECT_EQ(found("ready")->snapshot.number, 2U);
  EXPECT_EQ(found("s1")->snapshot.number, 2U);
  EXPECT_EQ(found("ready", "v2")->snapshot.number, 3U);
  EXPECT_FALSE(found(""));
  EXPECT_EQ(numbers(all()), (Numbers{6, 5, 3, 2}));
}

TEST_P(SnapshotTemplateContract, IsListedByEveryFilterAndInPages) {
  for (std::uint64_t number = 1; number <= 5; ++number)
    put(build("s" + std::to_string(number), number % 2 == 0 ? "even" + std::to_string(number) : "",
              {number < 3 ? "i1" : "i2", number}));
  put(build("s9", "even2", {"i1", 9}, "v2"));
  auto query = all();
  query.sandbox = "i2";
  EXPECT_EQ(numbers(query), (Numbers{5, 4, 3}));
  query = all();
  query.id_or_name = "even2";
  EXPECT_EQ(numbers(query), (Numbers{9, 2}));
  query.tag = "v2";
  EXPECT_EQ(numbers(query), Numbers{9});
  query = all();
  query.id_or_name = "s3";
  EXPECT_EQ(numbers(query), Numbers{3});
  query.team = "t2";
  EXPECT_EQ(numbers(query), Numbers{});

  query = all();
  query.limit = 4;
  const auto first = run(repository_->list_snapshot_templates(query));
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->more);
  query.before = first->snapshots.back().build;
  const auto second = run(repository_->list_snapshot_templates(query));
  EXPECT_FALSE(second->more);
  EXPECT_EQ(numbers(query), (Numbers{2, 1}));
}

TEST_P(SnapshotTemplateContract, IsNotRemovedWhileASandboxThatBeganAsItLives) {
  put(build("s1", "ready", {"i1", 1}));
  put(build("s1", "ready", {"i1", 2}, "v2"));
  begun("i5", {"i1", 1});
  EXPECT_EQ(refused("ready"), Code::conflict);
  EXPECT_EQ(refused("ready", "default"), Code::conflict);
  EXPECT_EQ(run(repository_->remove_snapshot_template("t1", "ready", "v2"))->size(), 1U);
  EXPECT_TRUE(found("ready"));
  EXPECT_FALSE(found("ready", "v2"));
  EXPECT_TRUE(run(repository_->remove_snapshot_template("t2", "ready", ""))->empty());
  ASSERT_TRUE(run(repository_->finish("i5", State::deleted, "", at(9))));
  const auto removed = run(repository_->remove_snapshot_template("t1", "s1", ""));
  ASSERT_TRUE(removed);
  ASSERT_EQ(removed->size(), 1U);
  EXPECT_EQ(removed->front().snapshot, (SnapshotId{"i1", 1}));
  EXPECT_TRUE(run(repository_->remove_snapshot_template("t1", "s1", ""))->empty());
}

TEST_P(SnapshotTemplateContract, AReplacedBuildStaysAsLongAsSandboxesBeganAsIt) {
  put(build("s1", "ready", {"i1", 1}));
  put(build("s1", "ready", {"i1", 2}));
  put(build("s1", "ready", {"i1", 3}));
  put(build("s2", "other", {"i1", 4}));
  begun("i5", {"i1", 1});
  const auto first = run(repository_->remove_replaced_builds());
  ASSERT_TRUE(first);
  ASSERT_EQ(first->size(), 1U);
  EXPECT_EQ(first->front().snapshot.number, 2U);
  EXPECT_EQ(run(repository_->published_snapshots()), (std::set<SnapshotId>{{"i1", 1}, {"i1", 3}, {"i1", 4}}));
  ASSERT_TRUE(run(repository_->finish("i5", State::failed, "", at(9))));
  EXPECT_EQ(run(repository_->remove_replaced_builds())->front().snapshot.number, 1U);
  EXPECT_TRUE(run(repository_->remove_replaced_builds())->empty());
  EXPECT_EQ(found("ready")->snapshot.number, 3U);
}

// Whichever comes first, the sandbox or the removal of what it begins as, the other hears of it.
TEST_P(SnapshotTemplateContract, NoSandboxBeginsAsABuildThatIsGone) {
  const auto stored = put(build("s1", "ready", {"i1", 1}));
  Sandbox row = sandbox("i5");
  row.origin = stored.snapshot;
  ASSERT_TRUE(run(repository_->add_sandbox_of(row, stored.build)));
  EXPECT_EQ(refused("ready"), Code::conflict);
  ASSERT_TRUE(run(repository_->finish("i5", State::deleted, "", at(9))));
  ASSERT_TRUE(run(repository_->remove_snapshot_template("t1", "ready", "")));
  row.id = "i6";
  EXPECT_EQ(run(repository_->add_sandbox_of(row, stored.build)).error().code, Code::not_found);
  EXPECT_FALSE(run(repository_->find_sandbox("i6"))->has_value());
}

// A position in a listing must not come to mean another build.
TEST_P(SnapshotTemplateContract, ABuildsNumberIsNotGivenAgain) {
  const auto first = put(build("s1", "ready", {"i1", 1}));
  ASSERT_TRUE(run(repository_->remove_snapshot_template("t1", "ready", "")));
  reopen();
  EXPECT_GT(put(build("s2", "ready", {"i1", 2})).build, first.build);
  EXPECT_EQ(found("ready")->id, "s2");
}

INSTANTIATE_TEST_SUITE_P(Repositories, SnapshotTemplateContract, contract_implementations(), contract_name);

}  // namespace
}  // namespace space::store
