#include "core/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "core/lineage.h"

namespace space {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::uint64_t>;

const Wall start{std::chrono::hours(490'000)};

SnapshotRecord scheduled(std::uint64_t number, Wall at, std::optional<std::uint64_t> parent,
                         SnapshotKind kind = SnapshotKind::disk) {
  SnapshotRecord record;
  record.number = number;
  record.kind = kind;
  record.cause = SnapshotCause::schedule;
  record.parent = parent;
  record.created_at = at;
  return record;
}

SnapshotSchedule disk_every(std::int64_t every_s, std::vector<KeepTier> keep) {
  return {.disk = KindSchedule{every_s, std::move(keep)}, .full = std::nullopt, .quota_bytes = std::nullopt};
}

// Each the parent of the next, a minute apart.
std::vector<SnapshotRecord> chain(std::uint64_t count) {
  std::vector<SnapshotRecord> snapshots;
  for (std::uint64_t n = 1; n <= count; ++n)
    snapshots.push_back(
        scheduled(n, start + n * 1min, n == 1 ? std::nullopt : std::optional<std::uint64_t>(n - 1)));
  return snapshots;
}

TEST(Retention, ATierKeepsTheNewestOfItsNewestSpans) {
  const auto snapshots = chain(6);
  const auto schedule = disk_every(60, {{60, 2}, {120, 2}});
  // 6, 5 by the minute; of the spans of two minutes 6 and 5 again.
  EXPECT_EQ(expired_snapshots({snapshots, 6, {}}, schedule, start + 1h), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(expired_snapshots({snapshots, 6, {}}, disk_every(60, {{60, 1}, {120, 3}}), start + 1h),
            (Numbers{1, 2, 4}));
  EXPECT_EQ(expired_snapshots({snapshots, 6, {}}, schedule, start + 24h * 365), (Numbers{1, 2, 3, 4}))
      << "what did nothing for a year keeps what it had";
}

TEST(Retention, WithoutAScheduleNothingOfTheLineageGoes) {
  const auto snapshots = chain(6);
  EXPECT_TRUE(expired_snapshots({snapshots, 6, {}}, std::nullopt, start + 24h * 365).empty());
  SnapshotSchedule full_only{.disk = std::nullopt, .full = KindSchedule{60, {{60, 1}}}, .quota_bytes = {}};
  EXPECT_TRUE(expired_snapshots({snapshots, 6, {}}, full_only, start + 1h).empty());
}

TEST(Retention, WhatIsHeldNeverGoes) {
  const auto schedule = disk_every(60, {{60, 1}});
  const Wall now = start + 1h;
  auto snapshots = chain(6);
  EXPECT_EQ(expired_snapshots({snapshots, 6, {}}, schedule, now), (Numbers{1, 2, 3, 4, 5}));
  snapshots[0].pinned = true;
  snapshots[1].name = "before the upgrade";
  snapshots[2].published = true;
  EXPECT_EQ(expired_snapshots({snapshots, 6, {4}}, schedule, now), (Numbers{5}));
  std::map<std::uint64_t, std::int64_t> bytes;
  for (const SnapshotRecord& snapshot : snapshots) bytes[snapshot.number] = 100;
  EXPECT_EQ(next_over_quota({snapshots, 6, {4}}, bytes, 599), 5u);
  EXPECT_EQ(next_over_quota({snapshots, 6, {4, 5}}, bytes, 0), std::nullopt) << "the head stays too";
}

TEST(Retention, OnlyTheLineageTakesSlots) {
  // 1 - 2 - 3 was left behind by a rollback to 1, which 4 and 5 followed; 3 is younger than 5 by its clock.
  auto snapshots = chain(5);
  snapshots[2].created_at = start + 30min;
  snapshots[3].parent = 1;
  const auto schedule = disk_every(60, {{60, 2}});
  EXPECT_EQ(expired_snapshots({snapshots, 5, {}}, schedule, start + 1h), (Numbers{1}));
  // A day after 3, the last of that branch; of 2 too, which is older.
  EXPECT_EQ(expired_snapshots({snapshots, 5, {}}, schedule, start + 24h + 29min), (Numbers{1}));
  EXPECT_EQ(expired_snapshots({snapshots, 5, {}}, schedule, start + 24h + 30min), (Numbers{1, 2, 3}));
  // Seen from the other branch it is the other way round.
  EXPECT_EQ(expired_snapshots({snapshots, 3, {}}, schedule, start + 1h), (Numbers{1}));
  EXPECT_EQ(expired_snapshots({snapshots, 3, {}}, schedule, start + 24h * 2), (Numbers{1, 4, 5}));
}

TEST(Retention, AChainWithoutItsMiddleIsStillOne) {
  auto snapshots = chain(5);
  const Removal removal = remove_from_lineage(snapshots, 3, 5);
  for (const SnapshotRecord& changed : removal.reparented)
    *std::ranges::find(snapshots, changed.number, &SnapshotRecord::number) = changed;
  std::erase_if(snapshots, [](const SnapshotRecord& s) { return s.number == 3; });
  const auto schedule = disk_every(60, {{60, 3}});
  EXPECT_EQ(expired_snapshots({snapshots, 5, {}}, schedule, start + 24h * 30), (Numbers{1}));
  // Without the new parent 1 and 2 would be another branch, a month old.
  snapshots[2].parent = 3;
  EXPECT_EQ(expired_snapshots({snapshots, 5, {}}, schedule, start + 24h * 30), (Numbers{1, 2}));
}

TEST(Retention, WhatWasPutAsideStaysAWeekAndThreeAtMost) {
  auto snapshots = chain(5);
  for (SnapshotRecord& snapshot : snapshots) {
    snapshot.cause =
        snapshot.number % 2 != 0 ? SnapshotCause::before_rollback : SnapshotCause::before_recovery;
    snapshot.parent.reset();
  }
  EXPECT_EQ(expired_snapshots({snapshots, 0, {}}, std::nullopt, start + 24h), (Numbers{1, 2}));
  EXPECT_EQ(expired_snapshots({snapshots, 0, {}}, std::nullopt, start + 24h * 7 + 3min), (Numbers{1, 2, 3}));
  EXPECT_EQ(expired_snapshots({snapshots, 0, {4}}, std::nullopt, start + 24h * 8), (Numbers{1, 2, 3, 5}));
}

TEST(Retention, UnderTheQuotaTheLeastWorthGoesFirst) {
  auto snapshots = chain(8);
  snapshots[0].cause = SnapshotCause::asked;
  snapshots[1].cause = SnapshotCause::asked;
  snapshots[2].cause = SnapshotCause::before_rollback;
  snapshots[3].cause = SnapshotCause::fork;
  snapshots[6].parent = 5;  // 6 is a branch of its own
  std::map<std::uint64_t, std::int64_t> bytes;
  for (const SnapshotRecord& snapshot : snapshots) bytes[snapshot.number] = 10;
  Numbers order;
  while (const auto next = next_over_quota({snapshots, 8, {}}, bytes, 0)) {
    order.push_back(*next);
    const Removal removal = remove_from_lineage(snapshots, *next, 8);
    for (const SnapshotRecord& changed : removal.reparented)
      *std::ranges::find(snapshots, changed.number, &SnapshotRecord::number) = changed;
    std::erase_if(snapshots, [&](const SnapshotRecord& s) { return s.number == *next; });
    ASSERT_LE(order.size(), 8u);
  }
  EXPECT_EQ(order, (Numbers{6, 5, 7, 3, 1, 2}));
  EXPECT_EQ(next_over_quota({snapshots, 8, {}}, bytes, 80), std::nullopt);
}

// A year, against rules that are slow and obvious
// ------------------------------------------------------------------------------------------------------------

struct Reference {
  bool by_time_over_all_branches = false;  // the wrong rule that must be seen

  static const SnapshotRecord* find(const std::vector<SnapshotRecord>& all, std::uint64_t number) {
    for (const SnapshotRecord& snapshot : all)
      if (snapshot.number == number) return &snapshot;
    return nullptr;
  }
  static bool descends(const std::vector<SnapshotRecord>& all, std::uint64_t from, std::uint64_t to) {
    while (true) {
      if (from == to) return true;
      const SnapshotRecord* at = find(all, from);
      if (at == nullptr || !at->parent) return false;
      from = *at->parent;
    }
  }
  bool takes_slots(const std::vector<SnapshotRecord>& all, std::uint64_t head,
                   const SnapshotRecord& s) const {
    return s.cause == SnapshotCause::schedule && (by_time_over_all_branches || descends(all, head, s.number));
  }
  // No later one of its span, and fewer spans after it than the tier has.
  bool in_tier(const std::vector<SnapshotRecord>& all, std::uint64_t head, const SnapshotRecord& s,
               const KeepTier& tier) const {
    const auto span = [&](const SnapshotRecord& x) {
      return x.created_at.time_since_epoch().count() / (tier.every_s * 1000);
    };
    std::set<std::int64_t> later;
    for (const SnapshotRecord& other : all)
      if (takes_slots(all, head, other) && other.kind == s.kind && other.created_at > s.created_at)
        later.insert(span(other));
    return !later.contains(span(s)) && later.size() < static_cast<std::size_t>(tier.count);
  }
  bool goes(const std::vector<SnapshotRecord>& all, std::uint64_t head, const std::set<std::uint64_t>& needed,
            const SnapshotSchedule& schedule, Wall now, const SnapshotRecord& s) const {
    if (s.pinned || s.published || !s.name.empty() || needed.contains(s.number) || s.number == head)
      return false;
    if (s.cause == SnapshotCause::before_rollback || s.cause == SnapshotCause::before_recovery) {
      int newer = 0;
      for (const SnapshotRecord& other : all)
        if ((other.cause == SnapshotCause::before_rollback ||
             other.cause == SnapshotCause::before_recovery) &&
            other.created_at > s.created_at)
          ++newer;
      return newer >= 3 || now - s.created_at >= 7 * 24h;
    }
    if (s.cause != SnapshotCause::schedule) return false;
    if (!takes_slots(all, head, s)) {
      for (const SnapshotRecord& other : all)
        if (descends(all, other.number, s.number) && now - other.created_at < 24h) return false;
      return true;
    }
    for (const KeepTier& tier : (s.kind == SnapshotKind::disk ? schedule.disk : schedule.full)->keep)
      if (in_tier(all, head, s, tier)) return false;
    return true;
  }
  Numbers expired(const std::vector<SnapshotRecord>& all, std::uint64_t head,
                  const std::set<std::uint64_t>& needed, const SnapshotSchedule& schedule, Wall now) const {
    Numbers result;
    for (const SnapshotRecord& s : all)
      if (goes(all, head, needed, schedule, now, s)) result.push_back(s.number);
    return result;
  }
};

// A sandbox that works, rests, is rolled back and asked for snapshots, as chance will.
class Year {
 public:
  explicit Year(unsigned seed) : random_(seed) {}

  void run(const std::function<void(Year&)>& each_step) {
    for (now = start; now < start + 24h * 365; now += std::chrono::minutes(10 * between(1, 12))) {
      step();
      each_step(*this);
      for (const std::uint64_t number : expired_snapshots({snapshots, head, needed}, schedule, now))
        remove(number);
    }
  }

  std::vector<SnapshotRecord> snapshots;
  std::uint64_t head = 0;
  std::set<std::uint64_t> needed;
  SnapshotSchedule schedule = default_schedule();
  Wall now{};

 private:
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool chance(int in) { return between(1, in) == 1; }

  void take(SnapshotKind kind, SnapshotCause cause) {
    ++last_;
    const Wall at = now + Millis(taken_++);
    SnapshotRecord record = scheduled(last_, at, head == 0 ? std::nullopt : std::optional(head), kind);
    record.cause = cause;
    record.pinned = chance(400);
    if (chance(400)) record.name = "named";
    record.published = chance(800);
    snapshots.push_back(record);
    head = record.number;
  }
  void step() {
    taken_ = 0;
    if (chance(60)) now += std::chrono::hours(between(1, 400));  // it rested
    if (!chance(4)) take(SnapshotKind::disk, SnapshotCause::schedule);
    if (chance(5)) take(SnapshotKind::full, SnapshotCause::schedule);
    if (chance(150)) take(SnapshotKind::full, SnapshotCause::asked);
    if (chance(40) && snapshots.size() > 1) {
      take(SnapshotKind::full, chance(3) ? SnapshotCause::before_recovery : SnapshotCause::before_rollback);
      head = snapshots[static_cast<std::size_t>(between(0, static_cast<int>(snapshots.size()) - 1))].number;
    }
    needed.clear();
    if (!snapshots.empty() && chance(2))
      needed.insert(
          snapshots[static_cast<std::size_t>(between(0, static_cast<int>(snapshots.size()) - 1))].number);
  }
  void remove(std::uint64_t number) {
    const Removal removal = remove_from_lineage(snapshots, number, head);
    for (const SnapshotRecord& changed : removal.reparented)
      *std::ranges::find(snapshots, changed.number, &SnapshotRecord::number) = changed;
    head = removal.head;
    std::erase_if(snapshots, [&](const SnapshotRecord& s) { return s.number == number; });
  }

  std::mt19937 random_;
  std::uint64_t last_ = 0;
  int taken_ = 0;  // in this step
};

TEST(Retention, AYearAsTheSlowRulesSay) {
  const Reference slow;
  const Reference wrong{.by_time_over_all_branches = true};
  for (const unsigned seed : {1u, 2u}) {
    std::size_t steps = 0, removed = 0, differ_from_wrong = 0, most = 0;
    Year year(seed);
    year.run([&](Year& at) {
      const auto expired = expired_snapshots({at.snapshots, at.head, at.needed}, at.schedule, at.now);
      ASSERT_EQ(expired, slow.expired(at.snapshots, at.head, at.needed, at.schedule, at.now))
          << "seed " << seed << " step " << steps;
      if (expired != wrong.expired(at.snapshots, at.head, at.needed, at.schedule, at.now))
        ++differ_from_wrong;
      for (const std::uint64_t number : expired) {
        const SnapshotRecord* s = Reference::find(at.snapshots, number);
        ASSERT_FALSE(s->pinned || s->published || !s->name.empty() || at.needed.contains(number));
      }
      ++steps;
      removed += expired.size();
      most = std::max(most, at.snapshots.size() - expired.size());
    });
    EXPECT_GT(steps, 1'000u) << "seed " << seed;
    EXPECT_GT(removed, 1'000u) << "seed " << seed;
    EXPECT_LT(most, 400u) << "seed " << seed;
    // The positive control: a rule that looks at time alone is seen.
    EXPECT_GT(differ_from_wrong, 10u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace space
