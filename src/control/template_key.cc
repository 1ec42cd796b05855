#include "control/template_key.h"

#include <algorithm>

namespace space::control {
namespace {

constexpr std::size_t name_length_max = 128;
constexpr std::size_t id_length = 20;  // of templates: hex digits

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_word(std::string_view text, std::string_view marks) {
  return !text.empty() && text.size() <= name_length_max && is_letter_or_digit(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter_or_digit(c) || marks.contains(c); });
}
// A name must not be taken for the id of another.
bool looks_like_an_id(std::string_view text) {
  return text.size() == id_length &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

TemplateKey parse_template_key(std::string_view text, std::string_view team) {
  TemplateKey key;
  if (text.size() > team.size() && text.starts_with(team) && text[team.size()] == '/') {
    key.of_own_team = true;
    text.remove_prefix(team.size() + 1);
  }
  const auto colon = text.rfind(':');
  key.name = text.substr(0, colon);
  if (colon != std::string_view::npos) key.tag = text.substr(colon + 1);
  return key;
}

Result<SnapshotName> parse_snapshot_name(std::string_view text, std::string_view team) {
  const std::string lower = lower_case(text);
  const TemplateKey key = parse_template_key(lower, team);
  if (key.name.contains('/'))
    return fail(Code::invalid_argument, "'name' names another team. Leave the team out, or give '{}/'", team);
  if (!is_word(key.name, "-_"))
    return fail(
        Code::invalid_argument,
        "'name' must be 1 to {} letters, digits, - and _, beginning with a letter or digit; a tag may "
        "follow after a colon",
        name_length_max);
  if (looks_like_an_id(key.name))
    return fail(Code::invalid_argument, "'name' looks like the id of a template. Choose another");
  if (lower.contains(':') && !is_word(key.tag, "-_."))
    return fail(
        Code::invalid_argument,
        "the tag in 'name' must be 1 to {} letters, digits, -, _ and ., beginning with a letter or digit",
        name_length_max);
  return SnapshotName{key.name, key.tag.empty() ? std::string(default_tag) : key.tag};
}

std::string snapshot_id_of(const store::SnapshotTemplate& row, std::string_view team) {
  if (row.name.empty()) return fmt::format("{}:{}", row.id, row.tag);
  return fmt::format("{}/{}:{}", team, row.name, row.tag);
}

}  // namespace space::control
