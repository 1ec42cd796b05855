#include "cli/fields.h"

#include "cli/progress.h"

namespace space::cli {

std::int64_t number_at(const JsonObject& object, std::string_view key) {
  return number_if(object, key).value_or(0);
}

std::optional<std::int64_t> number_if(const JsonObject& object, std::string_view key) {
  const auto value = int_member(object, key, 0, INT64_MAX);
  return value ? *value : std::nullopt;
}

std::string text_at(const JsonObject& object, std::string_view key, std::string_view otherwise) {
  const auto value = text_member(object, key);
  return value && *value ? **value : std::string(otherwise);
}

bool flag_at(const JsonObject& object, std::string_view key) {
  const auto value = bool_member(object, key);
  return value && value->value_or(false);
}

std::string bytes_at(const JsonObject& object, std::string_view key) {
  return byte_text(static_cast<std::uint64_t>(number_at(object, key)));
}

const JsonObject* object_at(const JsonObject& object, std::string_view key) {
  return object_member(object, key).value_or(nullptr);
}

std::vector<JsonObject> objects_in(const Json& body, std::string_view key) {
  std::vector<JsonObject> objects;
  if (!body.is_object()) return objects;
  if (const auto given = array_member(body.get_object(), key); given && *given)
    for (const Json& item : **given)
      if (item.is_object()) objects.push_back(item.get_object());
  return objects;
}

std::optional<Wall> time_at(const JsonObject& object, std::string_view key) {
  return parse_rfc3339(text_at(object, key, ""));
}

std::string moment_text(std::optional<Wall> time) {
  if (!time) return "?";
  const std::string text = to_rfc3339(*time);
  return text.substr(0, 10) + " " + text.substr(11, 8) + "Z";
}

}  // namespace space::cli
