#include "netd/egress_log.h"

#include <gtest/gtest.h>

namespace space::netd {
namespace {

using namespace std::chrono_literals;

LogEntry refusal(std::string host, std::uint16_t port = 443) {
  return {.kind = LogKind::tls, .host = std::move(host), .port = port, .reason = EgressReason::deny_mode};
}
LogEntry allowed(std::string host) {
  return {.host = std::move(host), .allowed = true, .reason = EgressReason::allow_rule};
}

TEST(EgressLog, is_read_on_from_where_a_reader_was) {
  EgressLog log;
  for (const char* host : {"a", "b", "c"}) log.add(allowed(host));
  auto page = log.read(0, 2);
  ASSERT_EQ(page.entries.size(), 2U);
  EXPECT_EQ(page.entries[0].host, "a");
  EXPECT_EQ(page.next, 2U);
  EXPECT_FALSE(page.gap);
  page = log.read(page.next, 2);
  ASSERT_EQ(page.entries.size(), 1U);
  EXPECT_EQ(page.entries[0].host, "c");
  page = log.read(page.next, 2);
  EXPECT_TRUE(page.entries.empty());
  EXPECT_EQ(page.next, 3U);
  page = log.read(77, 2);  // a number of before a restart
  EXPECT_TRUE(page.gap);
  EXPECT_EQ(page.entries.size(), 2U);
}

TEST(EgressLog, keeps_the_newest_and_says_what_is_lost) {
  EgressLog log;
  for (std::size_t i = 0; i < EgressLog::entries_max + 5; ++i) log.add(allowed(std::to_string(i)));
  const auto page = log.read(2, 1);
  EXPECT_TRUE(page.gap);
  ASSERT_EQ(page.entries.size(), 1U);
  EXPECT_EQ(page.entries[0].host, "5");
  EXPECT_FALSE(log.read(5, 1).gap);
}

TEST(EgressLog, counts_refusals_alike) {
  FakeClock clock;
  EgressLog log(clock);
  EXPECT_TRUE(log.add_counted(refusal("a")));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(log.add_counted(refusal("a")));
  EXPECT_TRUE(log.add_counted(refusal("b")));
  EXPECT_TRUE(log.add_counted(refusal("a", 80)));
  EXPECT_EQ(log.read(0, 100).entries.size(), 3U);
  clock.advance(10s);
  EXPECT_TRUE(log.add_counted(refusal("a")));
  const auto page = log.read(0, 100);
  ASSERT_EQ(page.entries.size(), 4U);
  EXPECT_EQ(page.entries[3].count, 1001U);
  EXPECT_EQ(to_json(page.entries[3]).at("count"), 1001U);
  EXPECT_FALSE(to_json(page.entries[0]).contains("count"));
}

TEST(EgressLog, what_was_counted_is_said_when_it_ends) {
  FakeClock clock;
  EgressLog log(clock);
  for (int i = 0; i < 5; ++i) log.add_counted(refusal("a"));
  EXPECT_EQ(log.read(0, 100).entries.size(), 1U);
  clock.advance(10s);
  const auto page = log.read(0, 100);
  ASSERT_EQ(page.entries.size(), 2U);
  EXPECT_EQ(page.entries[1].count, 4U);
}

TEST(EgressLog, endless_variety_is_bounded) {
  EgressLog log;
  unsigned entries = 0;
  for (std::size_t i = 0; i < 10 * EgressLog::kinds_of_refusal_max; ++i)
    entries += log.add_counted(refusal(std::to_string(i))) ? 1 : 0;
  EXPECT_GE(entries, EgressLog::kinds_of_refusal_max);
  EXPECT_LE(entries, EgressLog::kinds_of_refusal_max + 1);
}

TEST(EgressLog, texts_are_cut) {
  EgressLog log;
  LogEntry entry = allowed(std::string(1000, 'h'));
  entry.path = std::string(1000, 'p');
  log.add(std::move(entry));
  const auto page = log.read(0, 1);
  EXPECT_EQ(page.entries[0].host.size(), 253U);
  EXPECT_EQ(page.entries[0].path.size(), 256U);
}

}  // namespace
}  // namespace space::netd
