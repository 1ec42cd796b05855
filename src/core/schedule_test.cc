#include "core/schedule.h"

#include <gtest/gtest.h>

namespace space {
namespace {

Result<SnapshotSchedule> parse(std::string_view text) {
  const auto value = parse_json(text);
  EXPECT_TRUE(value) << text;
  return schedule_from_json(*value);
}

TEST(Schedule, DefaultIsWhatItsTextSays) {
  const auto schedule = parse("\"default\"");
  ASSERT_TRUE(schedule);
  EXPECT_EQ(*schedule, default_schedule());
  const auto written = parse(
      R"({"disk":{"every_s":600,"keep":[{"every_s":600,"count":6},{"every_s":3600,"count":24},
          {"every_s":86400,"count":7}]},"full":{"every_s":3600,"keep":[{"every_s":3600,"count":3}]}})");
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(*written, default_schedule());
}

TEST(Schedule, OffIsNone) {
  for (const Json& off : {Json(nullptr), Json("off")}) {
    const auto schedule = schedule_or_off(off);
    ASSERT_TRUE(schedule);
    EXPECT_FALSE(schedule->has_value());
  }
  EXPECT_EQ(schedule_or_off("default").value(), default_schedule());
  EXPECT_FALSE(schedule_or_off("of"));
}

TEST(Schedule, ComesBackFromItsText) {
  const auto schedule = parse(
      R"({"full":{"every_s":60,"keep":[{"every_s":120,"count":2},{"every_s":60,"count":1}]},
          "quota_bytes":1048576})");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_FALSE(schedule->disk);
  EXPECT_EQ(schedule->full->keep.front().every_s, 60) << "finest first";
  for (const SnapshotSchedule& each : {*schedule, default_schedule()}) {
    const auto again = parse(to_text(to_json(each)));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, each);
  }
}

struct Refused {
  const char* text;
  const char* says;
};

TEST(Schedule, WhatCannotBeMetIsRefusedWithTheReason) {
  const Refused cases[] = {
      {R"("hourly")", "a schedule is"},
      {R"(7)", "a schedule is"},
      {R"({})", "takes nothing"},
      {R"({"quota_bytes":1048576})", "takes nothing"},
      {R"({"disc":{"every_s":60,"keep":[{"every_s":60,"count":1}]}})", "no member \"disc\""},
      {R"({"disk":{"every_s":59,"keep":[{"every_s":59,"count":1}]}})", "every_s"},
      {R"({"disk":{"every_s":40000000,"keep":[{"every_s":40000000,"count":1}]}})", "every_s"},
      {R"({"disk":{"every_s":60,"keep":[]}})", "nothing that would be kept"},
      {R"({"disk":{"every_s":60}})", "nothing that would be kept"},
      {R"({"disk":{"every_s":60,"often":1,"keep":[{"every_s":60,"count":1}]}})", "no member \"often\""},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":1,"of":2}]}})", "no member \"of\""},
      {R"({"disk":{"every_s":60,"keep":[60]}})", "a tier of"},
      {R"({"disk":{"every_s":600,"keep":[{"every_s":300,"count":1}]}})", "taken every 600 s only"},
      {R"({"disk":{"every_s":600,"keep":[{"every_s":900,"count":1}]}})", "no multiple"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":0}]}})", "count"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":1001}]}})", "count"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":1},{"every_s":60,"count":2}]}})", "two tiers"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":501}]}})", "up to 501 snapshots"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":300}]},
           "full":{"every_s":60,"keep":[{"every_s":60,"count":300}]}})",
       "up to 600 snapshots"},
      {R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":1}]},"quota_bytes":1048575})", "quota_bytes"},
  };
  for (const Refused& refused : cases) {
    const auto schedule = parse(refused.text);
    ASSERT_FALSE(schedule) << refused.text;
    EXPECT_EQ(schedule.error().code, Code::invalid_argument) << refused.text;
    EXPECT_NE(schedule.error().message.find(refused.says), std::string::npos) << schedule.error().message;
  }
  // The closest that can be.
  EXPECT_TRUE(parse(R"({"disk":{"every_s":60,"keep":[{"every_s":60,"count":500}]},"quota_bytes":1048576})"));
}

TEST(Schedule, TooManyTiers) {
  JsonArray keep;
  for (int i = 1; i <= 9; ++i) keep.push_back(JsonObject{{"every_s", 60 * i}, {"count", 1}});
  EXPECT_FALSE(schedule_from_json(JsonObject{{"disk", JsonObject{{"every_s", 60}, {"keep", keep}}}}));
  keep.pop_back();
  EXPECT_TRUE(schedule_from_json(JsonObject{{"disk", JsonObject{{"every_s", 60}, {"keep", keep}}}}));
}

}  // namespace
}  // namespace space
