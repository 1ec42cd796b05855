#include "control/list_query.h"

#include <algorithm>
#include <charconv>
#include <ranges>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/http.h"

namespace space::control {
namespace {

using store::ListPosition;
using store::Order;
using store::SandboxQuery;

std::string_view word(Order order) {
  return order == Order::oldest_first ? "asc" : "desc";
}

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "running,paused" adds every state that clients see under that word.
Result<void> add_states(std::string_view list, std::vector<State>& states) {
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view name(part.begin(), part.end());
    if (name != "running" && name != "paused")
      return fail(Code::invalid_argument, "'state' must be running, paused or both with a comma");
    const ClientView view = name == "running" ? ClientView::running : ClientView::paused;
    for (const State state : all_states)
      if (client_view(state) == view && std::ranges::find(states, state) == states.end())
        states.push_back(state);
  }
  return {};
}

Result<std::map<std::string, std::string>> parse_metadata(std::string_view once_decoded) {
  const auto malformed =
      fail(Code::invalid_argument, "'metadata' must be percent-encoded key=value pairs joined by &");
  const auto pairs = http::percent_decode(once_decoded, true);
  if (!pairs) return malformed;
  std::map<std::string, std::string> metadata;
  for (const auto part : std::views::split(std::string_view(*pairs), '&')) {
    const std::string_view pair(part.begin(), part.end());
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const auto key = http::percent_decode(pair.substr(0, equals), true);
    const auto value =
        http::percent_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (!key || !value || key->empty()) return malformed;
    metadata[*key] = *value;
  }
  return metadata;
}

// "<milliseconds>__<id>__<order>"
Result<ListPosition> decode_cursor(std::string cursor, Order order) {
  const auto malformed =
      fail(Code::invalid_argument, "'nextToken' is not one of this API. Start again without it");
  for (char& c : cursor) c = c == '-' ? '+' : c == '_' ? '/' : c;
  const auto bytes = from_base64(cursor);
  if (!bytes) return malformed;
  const std::string_view text = as_text(*bytes);
  const auto first = text.find("__");
  const auto second = text.rfind("__");
  if (first == std::string_view::npos || second <= first) return malformed;
  const auto ms = parse_integer<std::int64_t>(text.substr(0, first));
  if (!ms) return malformed;
  if (text.substr(second + 2) != word(order))
    return fail(Code::invalid_argument, "'nextToken' belongs to another 'order'. Start again without it");
  return ListPosition{Wall(Millis(*ms)), std::string(text.substr(first + 2, second - first - 2))};
}

Result<void> apply(const std::string& name, const std::string& value, SandboxQuery& query) {
  if (name == "state") return add_states(value, query.states);
  if (name == "metadata") {
    SPACE_TRY(query.metadata, parse_metadata(value));
  } else if (name == "startedAfter") {
    query.started_after = parse_rfc3339(value);
    if (!query.started_after)
      return fail(Code::invalid_argument, "'startedAfter' must be a time like 2026-01-31T12:00:00Z");
  } else if (name == "template") {
    query.template_id_or_name = value;
  } else if (name == "order") {
    if (value != "asc" && value != "desc") return fail(Code::invalid_argument, "'order' must be asc or desc");
    query.order = value == "asc" ? Order::oldest_first : Order::newest_first;
  } else if (name == "limit") {
    const auto limit = parse_integer<std::size_t>(value);
    if (!limit || *limit < 1 || *limit > page_limit_max)
      return fail(Code::invalid_argument, "'limit' must be between 1 and {}", page_limit_max);
    query.limit = *limit;
  }
  return {};
}

}  // namespace

Result<SandboxQuery> parse_list_query(std::string_view text) {
  SandboxQuery query;
  query.limit = page_limit_max;
  std::string cursor;
  for (const auto& [name, value] : http::parse_query(text)) {
    if (name == "nextToken") cursor = value;
    SPACE_CHECK(apply(name, value, query));
  }
  if (query.states.empty()) SPACE_CHECK(add_states("running,paused", query.states));
  // After the loop: the order that the cursor must fit may come behind it.
  if (!cursor.empty()) {
    SPACE_TRY(query.after, decode_cursor(std::move(cursor), query.order));
  }
  return query;
}

std::string encode_cursor(const ListPosition& position, Order order) {
  const std::string text =
      fmt::format("{}__{}__{}", position.started_at.time_since_epoch().count(), position.id, word(order));
  std::string cursor = to_base64(as_bytes(text));
  while (cursor.ends_with('=')) cursor.pop_back();
  for (char& c : cursor) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return cursor;
}

}  // namespace space::control
