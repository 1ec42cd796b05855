#include "guest/file_selection.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "guest/http_date.h"

namespace space::guest {

namespace {

constexpr std::size_t ranges_max = 64;

bool same_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Up to the separator, trimmed; `rest` is left after it.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view piece = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(piece);
}

// "0.25" as 250; nullopt if it is no weight.
std::optional<int> parse_weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  int weight = (text[0] - '0') * 1000;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int scale = 100;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (c < '0' || c > '9') return std::nullopt;
    weight += (c - '0') * scale;
    scale /= 10;
  }
  return weight <= 1000 ? std::optional(weight) : std::nullopt;
}

// One member of Accept-Encoding; a malformed one is not offered.
struct Offer {
  std::string_view coding;
  int weight = 1000;
};
Offer take_offer(std::string_view& rest) {
  std::string_view member = take(rest, ',');
  Offer offer{take(member, ';')};
  while (!member.empty()) {
    const std::string_view parameter = take(member, ';');
    if (parameter.size() > 2 && same_without_case(parameter.substr(0, 2), "q="))
      offer.weight = parse_weight(parameter.substr(2)).value_or(0);
  }
  return offer;
}

// A list of entity tags, or "*". The weak comparison takes W/"x" and "x" for the same.
bool lists_etag(std::string_view list, std::string_view etag, bool weakly) {
  if (trimmed(list) == "*") return true;
  if (weakly && etag.starts_with("W/")) etag.remove_prefix(2);
  while (true) {
    list = trimmed(list);
    while (list.starts_with(',')) list = trimmed(list.substr(1));
    const std::size_t open = list.starts_with("W/") ? 2 : 0;
    if (list.size() <= open || list[open] != '"') return false;
    const std::size_t close = list.find('"', open + 1);
    if (close == std::string_view::npos) return false;
    const bool strong = open == 0;
    if ((weakly || strong) && !etag.empty() && list.substr(open, close + 1 - open) == etag) return true;
    list.remove_prefix(close + 1);
  }
}

std::optional<std::int64_t> date_field(const http::Fields& fields, std::string_view name) {
  const auto field = fields.get(name);
  return field ? parse_http_date(*field) : std::nullopt;
}

// RFC 9110 section 13.2.2: 412, 304, or 200 to go on.
int check_conditions(const http::Fields& fields, const FileVersion& file) {
  if (const auto match = fields.get("If-Match")) {
    if (!lists_etag(*match, file.etag, false)) return 412;
  } else if (const auto unmodified = date_field(fields, "If-Unmodified-Since")) {
    if (file.modified && *file.modified > *unmodified) return 412;
  }
  if (const auto none_match = fields.get("If-None-Match"))
    return lists_etag(*none_match, file.etag, true) ? 304 : 200;
  const auto modified = date_field(fields, "If-Modified-Since");
  return modified && file.modified && *file.modified <= *modified ? 304 : 200;
}

// Whether the part is wanted of the file as it is now.
bool range_applies(const http::Fields& fields, const FileVersion& file) {
  const auto condition = fields.get("If-Range");
  if (!condition) return true;
  if (condition->starts_with('"') || condition->starts_with("W/"))
    return lists_etag(*condition, file.etag, false);
  const auto date = parse_http_date(*condition);
  return date && file.modified == date;
}

bool asks_conditionally(const http::Fields& fields) {
  return std::ranges::any_of(fields.all(), [](const auto& field) {
    const std::string_view name = field.first;
    return same_without_case(name, "Range") ||
           (name.size() > 3 && same_without_case(name.substr(0, 3), "If-"));
  });
}

// Digits; a number too large for anything counts as the largest.
std::optional<std::uint64_t> parse_position(std::string_view text) {
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : UINT64_MAX;
}

// "3-7", "3-" or "-5"; nullopt: malformed. A length of 0: not in the file.
std::optional<RangeChoice> parse_range(std::string_view text, std::uint64_t size) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view left = trimmed(text.substr(0, dash));
  const std::string_view right = trimmed(text.substr(dash + 1));
  const auto last = parse_position(right);
  RangeChoice range{.kind = RangeChoice::Kind::part};
  if (left.empty()) {
    if (!last) return std::nullopt;
    range.length = std::min(*last, size);
    range.first = size - range.length;
    return range;
  }
  const auto first = parse_position(left);
  if (!first || (!last && !right.empty()) || (last && *last < *first)) return std::nullopt;
  if (*first >= size) return range;
  range.first = *first;
  range.length = std::min(last.value_or(UINT64_MAX), size - 1) - *first + 1;
  return range;
}

}  // namespace

std::string etag_of(const struct stat& status, timespec now) {
  // The kernel's clock for files moves in steps of up to 10 ms.
  const double age_s =
      double(now.tv_sec - status.st_ctim.tv_sec) + double(now.tv_nsec - status.st_ctim.tv_nsec) / 1e9;
  return fmt::format("{}\"{:x}-{:x}-{:x}-{:x}\"", age_s < 0.1 ? "W/" : "", status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec, status.st_size, status.st_ino);
}

Coding choose_coding(std::optional<std::string_view> field) {
  if (!field) return Coding::identity;
  std::optional<int> identity;
  std::optional<int> gzip;
  std::optional<int> any;
  bool others = false;
  for (std::string_view rest = *field; !rest.empty();) {
    const Offer offer = take_offer(rest);
    if (same_without_case(offer.coding, "identity")) {
      identity = offer.weight;
    } else if (same_without_case(offer.coding, "gzip") || same_without_case(offer.coding, "x-gzip")) {
      gzip = std::max(gzip.value_or(0), offer.weight);
    } else if (offer.coding == "*") {
      any = offer.weight;
    } else {
      others = others || (!offer.coding.empty() && offer.weight > 0);
    }
  }
  const int gzip_weight = gzip.value_or(any.value_or(0));
  const auto identity_weight = identity ? identity : any;
  const bool plain_is_fine = identity_weight.value_or(1) > 0;
  if (gzip_weight == 0) return plain_is_fine ? Coding::identity : Coding::none;
  if (!plain_is_fine) return Coding::gzip_only;
  const bool preferred = identity_weight ? gzip_weight > *identity_weight : !others;
  return preferred ? Coding::gzip : Coding::identity;
}

RangeChoice choose_range(std::string_view field, std::uint64_t size) {
  constexpr std::string_view unit = "bytes=";
  using Kind = RangeChoice::Kind;
  if (size == 0 || field.size() <= unit.size() || !same_without_case(field.substr(0, unit.size()), unit))
    return {};
  RangeChoice chosen{.kind = Kind::nothing};
  std::size_t count = 0;
  for (std::string_view rest = field.substr(unit.size()); !rest.empty();) {
    const std::string_view text = take(rest, ',');
    if (text.empty()) continue;
    const auto range = parse_range(text, size);
    if (!range || ++count > ranges_max) return {};
    if (range->length == 0) continue;
    if (chosen.kind == Kind::part) return {};  // several
    chosen = *range;
  }
  return count > 0 ? chosen : RangeChoice{};
}

Selection select(const http::RequestHead& head, const FileVersion& file) {
  const http::Fields& fields = head.fields;
  const Coding coding = choose_coding(fields.get("Accept-Encoding"));
  if (coding == Coding::none) return {.status = 406};
  if (const int status = check_conditions(fields, file); status != 200) return {.status = status};
  if (coding == Coding::gzip_only) return {.gzip = true};
  if (coding == Coding::gzip && !asks_conditionally(fields)) return {.gzip = true};
  const auto range = fields.get("Range");
  if (!range || head.method != "GET" || !file.size || !range_applies(fields, file)) return {};
  const RangeChoice choice = choose_range(*range, *file.size);
  if (choice.kind == RangeChoice::Kind::nothing) return {.status = 416};
  if (choice.kind == RangeChoice::Kind::whole) return {};
  return {.status = 206, .first = choice.first, .length = choice.length};
}

}  // namespace space::guest
