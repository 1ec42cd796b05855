#include "core/recovery.h"

#include <gtest/gtest.h>

namespace space {
namespace {

using namespace std::chrono_literals;

const std::vector<LineagePoint> lineage = {{9, false}, {7, true}, {4, false}, {2, true}};
constexpr RecoveryPoint live{RecoveredFrom::live_disk, 0};
const Wall noon{std::chrono::hours(480'000)};

TEST(RecoveryPoints, FollowThePolicy) {
  using enum RecoveredFrom;
  EXPECT_EQ(recovery_points(RecoveryPolicy::disk, lineage, true), std::vector{live});
  EXPECT_EQ(recovery_points(RecoveryPolicy::checkpoint, lineage, true),
            (std::vector<RecoveryPoint>{{full, 7}, {full, 2}, live}));
  EXPECT_TRUE(recovery_points(RecoveryPolicy::none, lineage, true).empty());
  EXPECT_EQ(recovery_points(RecoveryPolicy::checkpoint, {}, true), std::vector{live});
}

TEST(RecoveryPoints, SnapshotsServeWhereTheDiskIsGone) {
  using enum RecoveredFrom;
  EXPECT_EQ(recovery_points(RecoveryPolicy::disk, lineage, false),
            (std::vector<RecoveryPoint>{{disk, 9}, {disk, 7}, {disk, 4}, {disk, 2}}));
  EXPECT_EQ(recovery_points(RecoveryPolicy::checkpoint, lineage, false),
            (std::vector<RecoveryPoint>{{full, 7}, {full, 2}, {disk, 9}, {disk, 4}}));
  EXPECT_TRUE(recovery_points(RecoveryPolicy::none, lineage, false).empty());
  EXPECT_TRUE(recovery_points(RecoveryPolicy::disk, {}, false).empty());
}

TEST(RecoveryLimit, ThreeInTenMinutes) {
  std::optional<RecoveryNote> note;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(recovery_allowed(note, noon + i * 1min)) << i;
    note = next_recovery(note, noon + i * 1min, live, std::nullopt, "SIGKILL");
  }
  EXPECT_EQ(note->count, 3);
  EXPECT_FALSE(recovery_allowed(note, noon + 3min));
  EXPECT_FALSE(recovery_allowed(note, noon - 1h)) << "a clock that was set back";
  EXPECT_FALSE(recovery_allowed(note, noon + 10min - 1ms));
  EXPECT_TRUE(recovery_allowed(note, noon + 10min)) << "the first one is forgotten";
  note = next_recovery(note, noon + 10min, live, std::nullopt, "SIGKILL");
  EXPECT_EQ(note->count, 4);
  EXPECT_FALSE(recovery_allowed(note, noon + 10min));
  // By hand, any number: the note stays small.
  for (int i = 0; i < 50; ++i) note = next_recovery(note, noon + 10min, live, std::nullopt, "SIGKILL");
  EXPECT_EQ(note->count, 54);
  EXPECT_EQ(note->recent.size(), recovery_limits::most);
}

TEST(RecoveryNote, ComesBackFromTheJournal) {
  RecoveryNote note = next_recovery(std::nullopt, noon, {RecoveredFrom::full, 12}, noon - 1h, "SIGSEGV");
  note = next_recovery(note, noon + 1s, {RecoveredFrom::full, 11}, noon - 2h, "SIGSEGV, again");
  for (const RecoveryNote& written : {note, next_recovery(note, noon + 2s, live, std::nullopt, "")}) {
    const auto object = parse_json_object(to_text(to_json(written)), "note");
    ASSERT_TRUE(object);
    const auto read = recovery_note_from_json(*object);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, written);
  }
  EXPECT_FALSE(recovery_note_from_json({}));
  JsonObject unknown = parse_json_object(to_text(to_json(note)), "note").value();
  unknown["from"] = "elsewhere";
  EXPECT_FALSE(recovery_note_from_json(unknown));
}

TEST(RecoveryPolicy, NamesGoBothWays) {
  for (const auto policy : {RecoveryPolicy::disk, RecoveryPolicy::checkpoint, RecoveryPolicy::none})
    EXPECT_EQ(recovery_policy_from(to_string(policy)), policy);
  EXPECT_EQ(recovery_policy_from("Disk"), std::nullopt);
}

}  // namespace
}  // namespace space
