#include "control/snapshot_query.h"

#include <charconv>

#include "base/bytes.h"
#include "base/clock.h"
#include "control/list_query.h"
#include "net/http.h"

namespace space::control {
namespace {

constexpr std::string_view cursor_mark = "build ";

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::int64_t> decode_cursor(std::string cursor) {
  for (char& c : cursor) c = c == '-' ? '+' : c == '_' ? '/' : c;
  const auto bytes = from_base64(cursor);
  const std::string_view text = bytes ? as_text(*bytes) : std::string_view();
  const auto build = text.starts_with(cursor_mark)
                         ? parse_integer<std::int64_t>(text.substr(cursor_mark.size()))
                         : std::nullopt;
  if (!build)
    return fail(Code::invalid_argument, "'nextToken' is not one of this API. Start again without it");
  return *build;
}

Result<void> apply(const std::string& name, const std::string& value, const store::Team& team,
                   store::SnapshotTemplateQuery& query) {
  if (name == "sandboxID") {
    query.sandbox = value.substr(0, value.find('-'));  // old clients add "-client"
  } else if (name == "name") {
    const TemplateKey key = parse_template_key(value, team.name);
    query.id_or_name = lower_case(key.name);
    query.tag = lower_case(key.tag);
  } else if (name == "nextToken" && !value.empty()) {
    SPACE_TRY(query.before, decode_cursor(value));
  } else if (name == "limit") {
    const auto limit = parse_integer<std::size_t>(value);
    if (!limit || *limit < 1 || *limit > page_limit_max)
      return fail(Code::invalid_argument, "'limit' must be between 1 and {}", page_limit_max);
    query.limit = *limit;
  }
  return {};
}

}  // namespace

Result<store::SnapshotTemplateQuery> parse_snapshot_query(std::string_view text, const store::Team& team) {
  store::SnapshotTemplateQuery query;
  query.team = team.id;
  query.limit = page_limit_max;
  for (const auto& [name, value] : http::parse_query(text)) SPACE_CHECK(apply(name, value, team, query));
  return query;
}

std::string encode_snapshot_cursor(std::int64_t build) {
  std::string cursor = to_base64(as_bytes(fmt::format("{}{}", cursor_mark, build)));
  while (cursor.ends_with('=')) cursor.pop_back();
  for (char& c : cursor) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return cursor;
}

Result<std::optional<SnapshotName>> parse_publish_request(std::string_view text, std::string_view team) {
  if (text.empty()) return std::nullopt;
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  SPACE_TRY(const auto name, text_member(body, "name"));
  if (!name) return std::nullopt;
  return parse_snapshot_name(*name, team);
}

JsonObject published_json(const store::SnapshotTemplate& row, std::string_view team) {
  JsonArray names;
  if (!row.name.empty())
    names.emplace_back(row.tag == default_tag ? fmt::format("{}/{}", team, row.name)
                                              : fmt::format("{}/{}:{}", team, row.name, row.tag));
  return {{"snapshotID", snapshot_id_of(row, team)},
          {"names", std::move(names)},
          {"templateID", row.id},
          {"createdAt", to_rfc3339(row.created_at)},
          {"sandboxID", row.snapshot.sandbox},
          {"number", row.snapshot.number},
          {"baseTemplate", row.base_name},
          {"cpuCount", row.shape.vcpus},
          {"memoryMB", row.shape.memory_mib},
          {"diskSizeMB", row.shape.disk_mib}};
}

}  // namespace space::control
