// Snapshots as templates: published, created from, listed, replaced, deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/sha256.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SnapshotTemplatesTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }
  store::Sandbox row(const std::string& id) { return **plane.run(plane.repository().find_sandbox(id)); }
  Answer publish(const std::string& id, std::string name = "") {
    return plane.api("POST", "/sandboxes/" + id + "/snapshots",
                     name.empty() ? "{}" : to_text(JsonObject{{"name", name}}));
  }
  std::string published(const std::string& id, std::string name = "") {
    const Answer answer = publish(id, std::move(name));
    EXPECT_EQ(answer.status, 201) << answer.body;
    return require_text(answer.json(), "snapshotID").value_or("");
  }
  std::vector<std::string> listed(const std::string& query = "") {
    const Answer answer = plane.api("GET", "/snapshots" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> all;
    for (const Json& entry : parse_json(answer.body)->as_array())
      all.push_back(require_text(entry.as_object(), "snapshotID").value_or(""));
    return all;
  }
  std::string create_from(const std::string& name) {
    return plane.create(to_text(JsonObject{{"templateID", name}}));
  }
  Answer try_create(const std::string& name) {
    return plane.api("POST", "/v2/sandboxes", to_text(JsonObject{{"templateID", name}}));
  }
  std::uint64_t number_of(const std::string& id) { return row(id).origin.value_or(SnapshotId()).number; }
  Answer remove(std::string name) {
    std::string encoded;
    for (const char c : name) encoded += c == '/' ? "%2F" : c == ':' ? "%3A" : std::string(1, c);
    return plane.api("DELETE", "/templates/" + encoded);
  }
  int kill(const std::string& id) { return plane.api("DELETE", "/sandboxes/" + id).status; }
  // Another team's key; returns ours.
  std::string become_foreign() {
    const std::string foreign = "e2b_" + std::string(40, 'f');
    EXPECT_TRUE(plane.run(plane.repository().add_team({"t2", "other"})));
    EXPECT_TRUE(plane.run(plane.repository().add_api_key({sha256_hex(foreign), "t2", "k", {}})));
    return std::exchange(plane.api_key, foreign);
  }
  void until_withdrawn(std::vector<SnapshotId> expected) {
    plane.run_until([&] { return plane.node().withdrawn == expected; });
  }

  TestPlane plane;
};

TEST_F(SnapshotTemplatesTest, ASnapshotIsCreatedFromAfterItsSourceIsGone) {
  const std::string source = plane.create(R"({"templateID":"base","metadata":{"a":"b"}})");
  const store::Sandbox before = row(source);
  const Answer answer = publish(source);
  ASSERT_EQ(answer.status, 201) << answer.body;
  const std::string id = *require_text(answer.json(), "snapshotID");
  EXPECT_TRUE(id.ends_with(":default"));
  EXPECT_EQ(to_text(answer.json().at("names")), "[]");
  EXPECT_EQ(plane.node().snapshot_calls.at(0).at("cause"), "published");
  EXPECT_EQ(row(source).end_at, before.end_at);
  EXPECT_EQ(row(source).state, State::running);
  ASSERT_EQ(kill(source), 204);

  const std::string child = create_from(id);
  const store::Sandbox made = row(child);
  EXPECT_EQ(made.template_id + ":default", id);
  EXPECT_EQ(made.template_digest, before.template_digest);
  EXPECT_EQ(made.origin, (SnapshotId{source, 1}));
  EXPECT_EQ(made.default_workdir, "/home/user");
  EXPECT_TRUE(made.options.metadata.empty());
  EXPECT_NE(made.access_token, before.access_token);
  const JsonObject& asked = plane.node().sandboxes.at(child).request;
  EXPECT_EQ(to_text(asked.at("from")), fmt::format(R"({{"sandbox":"{}","number":1}})", source));
  EXPECT_EQ(*require_text(asked, "template"), std::string(64, 'a'));
  // Its template's id lists it, and a plain create has no `from`.
  EXPECT_THAT(plane.api("GET", "/v2/sandboxes?template=" + made.template_id).body, HasSubstr(child));
  EXPECT_FALSE(plane.node().sandboxes.at(plane.create()).request.contains("from"));
}

TEST_F(SnapshotTemplatesTest, EveryFormOfItsNameLeadsToIt) {
  const std::string source = plane.create();
  EXPECT_EQ(published(source, "ready"), "default/ready:default");
  EXPECT_EQ(published(source, "Ready:V2"), "default/ready:v2");
  const std::string id = row(create_from("ready")).template_id;
  for (const std::string& name :
       {std::string("ready"), std::string("READY"), std::string("ready:default"),
        std::string("default/ready"), std::string("default/ready:default"), id, id + ":default"}) {
    const std::string child = create_from(name);
    EXPECT_EQ(number_of(child), 1U) << name;
    EXPECT_EQ(row(child).template_name, "ready");
  }
  EXPECT_EQ(number_of(create_from("ready:v2")), 2U);
  EXPECT_EQ(number_of(create_from("default/ready:v2")), 2U);
  for (const char* unknown : {"ready:v3", "other/ready", "rea", "default/"}) {
    const Answer answer = try_create(unknown);
    EXPECT_EQ(answer.status, 404) << unknown;
    EXPECT_THAT(answer.message(), HasSubstr(unknown));
  }
}

TEST_F(SnapshotTemplatesTest, AnswersNames) {
  const std::string source = plane.create();
  EXPECT_EQ(to_text(publish(source, "ready").json().at("names")), R"(["default/ready"])");
  EXPECT_EQ(to_text(publish(source, "default/ready:v2").json().at("names")), R"(["default/ready:v2"])");
}

TEST_F(SnapshotTemplatesTest, BadNamesAreRefusedBeforeAnythingHappens) {
  const std::string source = plane.create();
  for (const char* name : {"a b", "-x", "other/ready", "a:b:c", "x:", "base", "base-id", "\xc3\xa9"}) {
    const Answer answer = publish(source, name);
    EXPECT_EQ(answer.status, 400) << name << answer.body;
    EXPECT_EQ(answer.json().at("code"), 400);
  }
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + source + "/snapshots", R"({"name":""})").status, 400);
  EXPECT_EQ(plane.api("POST", "/sandboxes/" + source + "/snapshots", R"({"name":7})").status, 400);
  EXPECT_TRUE(plane.node().snapshot_calls.empty());
  EXPECT_EQ(publish(new_sandbox_id()).status, 404);
  EXPECT_EQ(publish(source, "ready").status, 201);
}

TEST_F(SnapshotTemplatesTest, ANodeThatRefusesLeavesNothing) {
  const std::string source = plane.create();
  for (const auto [code, status] :
       {std::pair(Code::unavailable, 503), std::pair(Code::exhausted, 503), std::pair(Code::conflict, 409)}) {
    plane.node().snapshot_error = Error{code, "the pool is full. Delete snapshots"};
    const Answer answer = publish(source, "ready");
    EXPECT_EQ(answer.status, status);
    EXPECT_THAT(answer.message(), HasSubstr("Delete snapshots"));
  }
  EXPECT_THAT(listed(), IsEmpty());
  plane.node().snapshot_error.reset();
  const std::string id = published(source, "ready");
  EXPECT_THAT(listed(), ElementsAre(id));
}

TEST_F(SnapshotTemplatesTest, ANameUsedAgainMeansTheNewestAndTheOldOneGoes) {
  const std::string source = plane.create();
  published(source, "ready");
  const std::string template_id = row(create_from("ready")).template_id;
  const std::string user = create_from("ready");
  published(source, "ready");
  const std::string newest = create_from("ready");
  EXPECT_EQ(number_of(newest), 2U);
  EXPECT_EQ(row(newest).template_id, template_id);
  EXPECT_THAT(listed(), ElementsAre("default/ready:default"));
  published(source, "ready");
  EXPECT_THAT(plane.node().withdrawn, IsEmpty());  // both older ones are in use

  ASSERT_EQ(kill(newest), 204);
  until_withdrawn({{source, 2}});
  std::vector<std::string> first;
  for (const auto& [id, sandbox] : plane.node().sandboxes)
    if (sandbox.request.contains("from")) first.push_back(id);
  for (const std::string& id : first) ASSERT_EQ(kill(id), 204);
  until_withdrawn({{source, 2}, {source, 1}});
  EXPECT_EQ(number_of(create_from("ready")), 3U);
  EXPECT_THAT(plane.node().published, ElementsAre(SnapshotId{source, 3}));
  published(source, "ready");
  published(source, "ready");  // replaces one that nobody uses
  plane.run_until([&] { return plane.node().withdrawn.size() == 3; });
  EXPECT_EQ(plane.node().withdrawn.back(), (SnapshotId{source, 4}));
}

TEST_F(SnapshotTemplatesTest, IsDeletedOnceNobodyUsesIt) {
  const std::string source = plane.create();
  const std::string id = published(source, "ready");
  const std::string unnamed = published(source);
  const std::string user = create_from(id);
  const Answer refused = remove(id);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.message(), HasSubstr(user));
  ASSERT_EQ(plane.api("POST", "/sandboxes/" + user + "/pause", "{}").status, 204);
  EXPECT_EQ(remove(id).status, 400);
  EXPECT_EQ(number_of(create_from("ready")), 1U);
  for (const auto& [sandbox, held] : std::map(plane.node().sandboxes))
    if (held.request.contains("from")) {
      ASSERT_EQ(kill(sandbox), 204);
    }
  EXPECT_EQ(remove(id).status, 204);
  until_withdrawn({{source, 1}});
  EXPECT_EQ(remove(id).status, 404);
  EXPECT_EQ(try_create("ready").status, 404);
  EXPECT_THAT(listed(), ElementsAre(unnamed));
  EXPECT_EQ(remove(unnamed).status, 204);
  EXPECT_THAT(listed(), IsEmpty());
  // A template of the operator is not deleted this way.
  EXPECT_EQ(remove("base").status, 404);
  EXPECT_TRUE(is_sandbox_id(plane.create()));
}

TEST_F(SnapshotTemplatesTest, ATagIsDeletedByItself) {
  const std::string source = plane.create();
  published(source, "ready");
  published(source, "ready:v2");
  published(source, "ready:v3");
  EXPECT_EQ(remove("default/ready:v2").status, 204);
  EXPECT_THAT(listed(), ElementsAre("default/ready:v3", "default/ready:default"));
  EXPECT_EQ(remove("ready").status, 204);  // without a tag: all of it
  EXPECT_THAT(listed(), IsEmpty());
  until_withdrawn({{source, 2}, {source, 1}, {source, 3}});
}

TEST_F(SnapshotTemplatesTest, AnotherTeamsSnapshotIsUnknown) {
  const std::string source = plane.create();
  const std::string id = published(source, "ready");
  const std::string template_id = row(create_from(id)).template_id;
  const std::string own = become_foreign();
  EXPECT_THAT(listed(), IsEmpty());
  const auto told = [&](const std::string& name) {
    std::string message = try_create(name).message();
    return message.replace(message.find(name), name.size(), "X");
  };
  for (const std::string& name : {id, std::string("ready"), template_id, template_id + ":default"}) {
    EXPECT_EQ(try_create(name).status, 404) << name;
    EXPECT_EQ(told(name), told("never-there"));
    EXPECT_EQ(remove(name).status, 404) << name;
  }
  EXPECT_EQ(publish(source).status, 404);
  plane.api_key = own;
  EXPECT_EQ(listed(), std::vector{id});
  EXPECT_EQ(number_of(create_from(id)), 1U);
}

TEST_F(SnapshotTemplatesTest, IsListedByFilterAndInPages) {
  const std::string one = plane.create(), two = plane.create();
  const std::string a = published(one, "a"), b = published(two, "b"), c = published(one);
  const std::string a2 = published(two, "a:v2");
  EXPECT_THAT(listed(), ElementsAre(a2, c, b, a));
  EXPECT_THAT(listed("?sandboxID=" + one), ElementsAre(c, a));
  EXPECT_THAT(listed("?sandboxID=" + two + "-client"), ElementsAre(a2, b));
  EXPECT_THAT(listed("?name=a"), ElementsAre(a2, a));
  EXPECT_THAT(listed("?name=a%3Av2"), ElementsAre(a2));
  EXPECT_THAT(listed("?name=default%2Fa%3Adefault"), ElementsAre(a));
  EXPECT_THAT(listed("?name=other%2Fa"), IsEmpty());
  EXPECT_THAT(listed("?name=" + c.substr(0, c.find(':'))), ElementsAre(c));

  std::vector<std::string> seen;
  std::string token;
  for (int page = 0; page < 2; ++page) {
    const Answer answer = plane.api("GET", "/snapshots?limit=2&nextToken=" + token);
    for (const Json& entry : parse_json(answer.body)->as_array())
      seen.push_back(*require_text(entry.as_object(), "snapshotID"));
    token = answer.fields.get("X-Next-Token").value_or("");
    EXPECT_EQ(token.empty(), page == 1);
  }
  EXPECT_THAT(seen, ElementsAre(a2, c, b, a));
  for (const char* bad : {"?limit=0", "?limit=101", "?limit=x", "?nextToken=x", "?nextToken=YnVpbGQg"})
    EXPECT_EQ(plane.api("GET", std::string("/snapshots") + bad).status, 400) << bad;
}

TEST_F(SnapshotTemplatesTest, SurvivesARestartAndWhatNoRowKnowsIsWithdrawn) {
  const std::string source = plane.create();
  const std::string id = published(source, "ready");
  plane.restart();
  plane.node().published.insert({source, 77});
  plane.node().held.insert({source, 77});
  plane.connect_node();
  until_withdrawn({{source, 77}});
  EXPECT_THAT(plane.node().published, ElementsAre(SnapshotId{source, 1}));
  EXPECT_EQ(number_of(create_from(id)), 1U);
}

// The node's list may hold what a publication under way has not written down yet.
TEST_F(SnapshotTemplatesTest, APublicationUnderWayIsNotTakenForALeftover) {
  const std::string source = plane.create();
  plane.node().snapshot_hangs = true;
  const auto sending = plane.begin_api("POST", "/sandboxes/" + source + "/snapshots", R"({"name":"ready"})");
  plane.run_until([&] { return plane.node().published.size() == 1; });
  plane.node().published.insert({source, 88});
  plane.node().lose_events();
  plane.run_until([&] { return plane.node().published_asked == 2; });
  plane.node().snapshot_hangs = false;
  plane.node().wake();
  EXPECT_EQ(plane.finish(*sending).status, 201);
  until_withdrawn({{source, 88}});
  EXPECT_EQ(number_of(create_from("ready")), 1U);
}

TEST_F(SnapshotTemplatesTest, ASnapshotThatTheNodeLostIsOneClearError) {
  const std::string source = plane.create();
  const std::string id = published(source, "ready");
  plane.node().held.clear();
  const Answer answer = try_create("ready");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.message(),
            "Snapshot 'default/ready:default' cannot be used: its node does not have it any more. "
            "Make a new one");
  EXPECT_EQ(remove(id).status, 204);  // nothing of the failed create is in the way
}

TEST_F(SnapshotTemplatesTest, AParkedVmOfTheSnapshotIsTaken) {
  const std::string source = plane.create();
  published(source, "ready");
  const std::string parked = new_sandbox_id();
  plane.node().parked = {parked};
  EXPECT_EQ(create_from("ready"), parked);
  EXPECT_EQ(to_text(plane.node().pool_calls.back().at("from")),
            fmt::format(R"({{"sandbox":"{}","number":1}})", source));
  plane.create();
  EXPECT_FALSE(plane.node().pool_calls.back().contains("from"));
}

TEST_F(SnapshotTemplatesTest, ATemplateOfTheOperatorWinsUnlessTheTeamIsNamed) {
  const std::string source = plane.create();
  published(source, "later");
  store::Template later{"later-id", "later", std::string(64, 'b'), {}, "", "", plane.clock.wall()};
  ASSERT_TRUE(plane.run(plane.repository().put_template(later)));
  EXPECT_EQ(row(create_from("later")).template_id, "later-id");
  EXPECT_EQ(number_of(create_from("later")), 0U);
  EXPECT_EQ(number_of(create_from("default/later")), 1U);
  EXPECT_EQ(row(create_from("default/base")).template_id, "base-id");
}

// A sandbox that is cold is its newest snapshot: published twice, one snapshot stands for both names.
TEST_F(SnapshotTemplatesTest, OneSnapshotUnderTwoNamesStaysForTheSecond) {
  const std::string source = plane.create();
  published(source);
  ASSERT_EQ(plane.api("POST", "/sandboxes/" + source + "/pause", "{}").status, 204);
  plane.node().sandboxes.at(source).cold = true;
  published(source, "one");
  published(source, "two");
  EXPECT_EQ(remove("one").status, 204);
  EXPECT_EQ(number_of(create_from("two")), 1U);
  EXPECT_THAT(plane.node().withdrawn, IsEmpty());
}

}  // namespace
}  // namespace space::control
