#include "control/list_query.h"

#include <gtest/gtest.h>

#include "net/http.h"

namespace space::control {
namespace {

std::string error_of(std::string_view query) {
  const auto parsed = parse_list_query(query);
  EXPECT_FALSE(parsed) << query;
  return parsed ? "" : parsed.error().message;
}

TEST(ListQuery, DefaultsToAllThatIsAlive) {
  const auto query = parse_list_query("");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->limit, 100U);
  EXPECT_EQ(query->order, store::Order::newest_first);
  EXPECT_FALSE(query->after);
  for (const State state : all_states)
    EXPECT_EQ(std::ranges::count(query->states, state), client_view(state) == ClientView::gone ? 0 : 1)
        << to_string(state);
}

TEST(ListQuery, MetadataIsEncodedThreeTimes) {
  const auto query = parse_list_query("metadata=a%3Db%252520c%26k%3Dv%2525261");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->metadata, (std::map<std::string, std::string>{{"a", "b c"}, {"k", "v&1"}}));
}

TEST(ListQuery, EveryFilter) {
  const auto query = parse_list_query(
      "state=paused&startedAfter=2026-01-01T00:00:00.000Z&template=base&order=asc&limit=7&other=x");
  ASSERT_TRUE(query);
  EXPECT_TRUE(
      std::ranges::all_of(query->states, [](State s) { return client_view(s) == ClientView::paused; }));
  EXPECT_EQ(to_rfc3339(*query->started_after), "2026-01-01T00:00:00.000Z");
  EXPECT_EQ(query->template_id_or_name, "base");
  EXPECT_EQ(query->order, store::Order::oldest_first);
  EXPECT_EQ(query->limit, 7U);
  EXPECT_EQ(parse_list_query("state=running,paused")->states.size(), parse_list_query("")->states.size());
}

TEST(ListQuery, ErrorsNameTheParameter) {
  for (const char* limit : {"0", "101", "-1", "x", "", "99999999999999999999"})
    EXPECT_TRUE(error_of(std::string("limit=") + limit).contains("'limit'")) << limit;
  EXPECT_TRUE(error_of("state=dead").contains("'state'"));
  EXPECT_TRUE(error_of("order=up").contains("'order'"));
  EXPECT_TRUE(error_of("startedAfter=yesterday").contains("'startedAfter'"));
  EXPECT_TRUE(error_of("metadata=%25zz").contains("'metadata'"));
  for (const char* token : {"x", "!!!", "MTIz", "X19f"})
    EXPECT_TRUE(error_of(std::string("nextToken=") + token).contains("'nextToken'")) << token;
}

TEST(ListQuery, CursorsHoldForOneOrder) {
  const store::ListPosition position{Wall(Millis(1'700'000'000'123)), "iabc"};
  const std::string cursor = encode_cursor(position, store::Order::oldest_first);
  EXPECT_EQ(http::percent_encode(cursor), cursor);
  const auto query = parse_list_query("nextToken=" + cursor + "&order=asc");
  ASSERT_TRUE(query) << query.error().message;
  EXPECT_EQ(query->after->started_at, position.started_at);
  EXPECT_EQ(query->after->id, "iabc");
  EXPECT_TRUE(error_of("nextToken=" + cursor).contains("another 'order'"));
}

}  // namespace
}  // namespace space::control
