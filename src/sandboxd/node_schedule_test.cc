// The whole sandbox manager: what a sandbox keeps of itself by its schedule, without any control plane's
// word. A second of a schedule lasts 10 ms here.
#include <gtest/gtest.h>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

class ScheduleTest : public NodeTest {
 protected:
  void SetUp() override {
    more_arguments_ = {"--fault", "fast-schedule"};
    NodeTest::SetUp();
  }
  static JsonObject every_minute(const char* kind, int count = 500) {
    return {{kind, {{"every_s", 60}, {"keep", {{{"every_s", 60}, {"count", count}}}}}}};
  }
  std::string scheduled(const JsonObject& schedule) {
    JsonObject body = create_body(new_sandbox_id());
    body["schedule"] = schedule;
    const Answer answer = call("sandbox/create", body);
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    return std::string(body.at("id").as_string());
  }
  JsonArray snapshots(const std::string& id) {
    return call("sandbox/snapshots", {{"id", id}}).body.at("snapshots").as_array();
  }
  std::uint64_t newest(const std::string& id) {
    const JsonArray all = snapshots(id);
    return all.empty() ? 0 : all.back().at("number").to_number<std::uint64_t>();
  }
  void until_more_than(const std::string& id, std::uint64_t number) {
    pump_until([&] { return newest(id) > number; });
  }
  std::size_t looks(const std::string& id) {
    return static_cast<std::size_t>(std::ranges::count(noded_->vm(id)->calls, "activity"));
  }
  // The schedule came round that often, and had a look each time.
  void until_looked(const std::string& id, std::size_t times) {
    const std::size_t before = looks(id);
    pump_until([&] { return looks(id) >= before + times; });
  }
};

TEST_F(ScheduleTest, TakesWhatChangedAndNothingElse) {
  const std::string id = scheduled(every_minute("disk"));
  until_more_than(id, 0);
  const JsonObject first = snapshots(id)[0].as_object();
  EXPECT_EQ(first.at("kind"), "disk");
  EXPECT_EQ(first.at("cause"), "schedule");
  EXPECT_EQ(first.at("quiesced"), true);
  // Nobody called, nothing computed.
  const auto idle = newest(id);
  until_looked(id, 4);
  EXPECT_EQ(newest(id), idle);
  // A call is a change.
  EXPECT_EQ(echo(id, "hello"), "hello");
  until_more_than(id, idle);
  // The end of the call may come after that one and make one more.
  auto before = newest(id);
  for (until_looked(id, 2); newest(id) != before; until_looked(id, 2)) before = newest(id);
  // Work that nobody called for is one as well, a clock's tick is none.
  noded_->vm(id)->activity = R"({"cpu_used_us":19000})";
  until_looked(id, 3);
  EXPECT_EQ(newest(id), before);
  noded_->vm(id)->activity = R"({"cpu_used_us":90000})";
  until_more_than(id, before);
}

TEST_F(ScheduleTest, FullOnesHoldTheMemory) {
  const std::string id = scheduled(every_minute("full"));
  until_more_than(id, 0);
  const JsonObject first = snapshots(id)[0].as_object();
  EXPECT_EQ(first.at("kind"), "full");
  EXPECT_EQ(first.at("cause"), "schedule");
  EXPECT_FALSE(noded_->vm(id)->stands_still());
  EXPECT_FALSE(noded_->vm(id)->frozen);
  EXPECT_EQ(echo(id, "on"), "on");
}

TEST_F(ScheduleTest, WhatServedItsTimeGoesAndWhatIsHeldStays) {
  const std::string id = scheduled(every_minute("disk", 1));
  until_more_than(id, 0);
  const auto pinned = newest(id);
  ASSERT_EQ(call("sandbox/snapshot/set", {{"id", id}, {"number", pinned}, {"pinned", true}}).status, 200);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(echo(id, "work"), "work");
    until_more_than(id, newest(id));
  }
  const auto last = newest(id);
  // One a span is kept, and a span may have ended meanwhile: never more than two of them and the pinned one.
  pump_until([&] { return noded_->snapshots.of.at(id).size() <= 3; });
  EXPECT_TRUE(noded_->snapshots.finished(id, pinned));
  EXPECT_TRUE(noded_->snapshots.finished(id, last));
  EXPECT_GE(last, pinned + 4);
}

TEST_F(ScheduleTest, OneThatRestsTakesNone) {
  const std::string id = scheduled(every_minute("disk"));
  until_more_than(id, 0);
  ASSERT_EQ(call("sandbox/pause", {{"id", id}}).status, 200);
  const auto before = newest(id);
  // Beside one that does.
  const std::string other = scheduled(every_minute("disk"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(echo(other, "work"), "work");
    until_more_than(other, newest(other));
  }
  EXPECT_EQ(newest(id), before);
  ASSERT_EQ(call("sandbox/resume", {{"id", id}, {"access_token", token}}).status, 200);
  until_more_than(id, before);
}

TEST_F(ScheduleTest, WhatADaemonMissedIsOne) {
  const std::string id = scheduled(every_minute("disk"));
  until_more_than(id, 0);
  const auto before = newest(id);
  kill_manager();
  ::usleep(3 * 600'000);  // three are due
  start();
  until_more_than(id, before);  // nobody knows what happened meanwhile
  until_looked(id, 3);
  EXPECT_EQ(newest(id), before + 1);
  EXPECT_EQ(echo(id, "and on"), "and on");
  until_more_than(id, before + 1);
}

TEST_F(ScheduleTest, ItIsSetAndEndedAtAnyTime) {
  const std::string id = created();
  EXPECT_TRUE(call("sandbox/get", {{"id", id}}).body.at("schedule").is_null());
  for (const Json& bad :
       {Json("often"), Json(JsonObject{}), Json(JsonObject{{"disk", JsonObject{{"every_s", 1}}}})}) {
    const Answer refused = call("sandbox/schedule", {{"id", id}, {"schedule", bad}});
    EXPECT_EQ(refused.status, 400) << to_text(bad);
    EXPECT_FALSE(refused.body.at("message").as_string().empty());
  }
  EXPECT_EQ(call("sandbox/schedule", {{"id", id}}).status, 400);
  const Answer set = call("sandbox/schedule", {{"id", id}, {"schedule", every_minute("disk")}});
  ASSERT_EQ(set.status, 200) << to_text(set.body);
  EXPECT_EQ(set.body.at("schedule").at("disk").at("every_s").to_number<int>(), 60);
  until_more_than(id, 0);
  const Answer off = call("sandbox/schedule", {{"id", id}, {"schedule", nullptr}});
  EXPECT_TRUE(off.body.at("schedule").is_null());
  EXPECT_GT(newest(id), 0u) << "turning it off removes nothing";
  const Answer usual = call("sandbox/schedule", {{"id", id}, {"schedule", "default"}});
  EXPECT_EQ(usual.body.at("schedule").at("full").at("every_s").to_number<int>(), 3600);
  // As it was given, also for the next daemon.
  kill_manager();
  start();
  EXPECT_EQ(call("sandbox/get", {{"id", id}}).body.at("schedule"), usual.body.at("schedule"));
}

TEST_F(ScheduleTest, AFailedOneIsTriedAgainAndHarmsNobody) {
  const std::string id = scheduled(every_minute("disk"));
  bool refused = false;
  noded_->refuse = [&](noded::Verb verb) -> std::optional<Error> {
    if (verb != noded::Verb::snapshot_begin) return std::nullopt;
    refused = true;
    return Error{Code::exhausted, "no room"};
  };
  pump_until([&] { return refused; });
  noded_->refuse = [](noded::Verb) { return std::nullopt; };
  EXPECT_EQ(echo(id, "works"), "works");
  EXPECT_FALSE(noded_->vm(id)->disk_frozen);
  EXPECT_TRUE(snapshots(id).empty());
  EXPECT_EQ(call("sandbox/snapshot", {{"id", id}, {"kind", "disk"}}).status, 200);
}

}  // namespace
}  // namespace space
