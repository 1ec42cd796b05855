#include "cli/sandbox_lookup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/ids.h"

namespace space::cli {

namespace {

constexpr std::size_t shown_max = 5;
constexpr std::size_t typos_max = 3;

// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// Ids whose beginning is a few slips away from what was typed.
std::vector<std::string> close_to(std::string_view wanted, const std::vector<std::string>& ids) {
  std::vector<std::string> close;
  const std::size_t limit = std::min(typos_max, wanted.size() / 2);
  for (const std::string& id : ids)
    if (id != wanted && distance(wanted, std::string_view(id).substr(0, wanted.size())) <= limit)
      close.push_back(id);
  return close;
}

std::string listed(std::vector<std::string> ids) {
  const std::size_t more = ids.size() > shown_max ? ids.size() - shown_max : 0;
  ids.resize(ids.size() - more);
  return fmt::format("{}{}", fmt::join(ids, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string hint(std::string_view wanted, const std::vector<std::string>& ids) {
  const auto close = close_to(wanted, ids);
  return close.empty() ? "'space ls' lists those there are" : "did you mean " + listed(close) + "?";
}

}  // namespace

Task<Result<JsonArray>> list_sandboxes(const ApiClient& api) {
  JsonArray all;
  std::string token;
  do {
    std::string path = "/v2/sandboxes?limit=100";
    if (!token.empty()) path += "&nextToken=" + http::percent_encode(token);
    SPACE_CO_TRY(Answer answer, co_await api.call("GET", std::move(path), std::nullopt));
    if (!answer.body.is_array()) co_return fail(Code::internal, "the API sent no list");
    for (Json& item : answer.body.get_array()) all.push_back(std::move(item));
    token = answer.next_token;
  } while (!token.empty());
  co_return all;
}

std::vector<std::string> ids_of(const JsonArray& sandboxes) {
  std::vector<std::string> ids;
  for (const Json& item : sandboxes)
    if (item.is_object())
      if (auto id = require_text(item.get_object(), "sandboxID")) ids.push_back(*std::move(id));
  return ids;
}

Result<std::string> choose_sandbox(std::string_view wanted, const std::vector<std::string>& ids) {
  std::vector<std::string> matching;
  for (const std::string& id : ids) {
    if (id == wanted) return id;
    if (!wanted.empty() && id.starts_with(wanted)) matching.push_back(id);
  }
  if (matching.size() == 1) return matching.front();
  if (!matching.empty())
    return fail(Code::invalid_argument, "'{}' is the beginning of several sandboxes: {}", wanted,
                listed(std::move(matching)));
  return fail(Code::not_found, "there is no sandbox '{}'; {}", wanted, hint(wanted, ids));
}

Task<Result<std::string>> resolve_sandbox(const ApiClient& api, std::string wanted) {
  if (is_sandbox_id(wanted)) co_return wanted;
  SPACE_CO_TRY(const JsonArray sandboxes, co_await list_sandboxes(api));
  co_return choose_sandbox(wanted, ids_of(sandboxes));
}

Task<Error> explain_missing(const ApiClient& api, std::string wanted, Error error) {
  if (error.code != Code::not_found) co_return error;
  const auto sandboxes = co_await list_sandboxes(api);
  if (!sandboxes) co_return error;
  const auto ids = ids_of(*sandboxes);
  // It is there: something of it is missing.
  if (std::ranges::find(ids, wanted) == ids.end()) error.message += "; " + hint(wanted, ids);
  co_return error;
}

Task<Error> explain_missing_snapshot(const ApiClient& api, std::string sandbox, Error error) {
  if (error.code != Code::not_found) co_return error;
  Error explained = co_await explain_missing(api, sandbox, error);
  if (explained.message == error.message)
    explained.message += fmt::format("; 'space snapshot ls {}' lists those there are", sandbox);
  co_return explained;
}

}  // namespace space::cli
