#include "base/json.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace space {

Result<Json> parse_json(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = 32;
  Json value = boost::json::parse(boost::json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return fail(Code::invalid_argument, "malformed JSON: {}", error.message());
  return value;
}

Result<JsonObject> parse_json_object(std::string_view text, std::string_view what) {
  auto value = parse_json(text);
  if (!value) return wrap(std::move(value).error(), what);
  if (!value->is_object()) return fail(Code::invalid_argument, "{} must be a JSON object", what);
  return std::move(value->get_object());
}

std::string to_text(const Json& value) {
  return boost::json::serialize(value);
}

namespace {

const Json* find(const JsonObject& object, std::string_view key) {
  const Json* value = object.if_contains(boost::json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

Result<std::optional<std::string>> text_member(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return fail(Code::invalid_argument, "'{}' must be a string", key);
  return std::string(value->get_string());
}

Result<std::optional<std::int64_t>> int_member(const JsonObject& object, std::string_view key,
                                               std::int64_t min, std::int64_t max) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  boost::json::error_code error;
  const auto number = value->is_number() ? value->to_number<std::int64_t>(error) : 0;
  if (!value->is_number() || error) return fail(Code::invalid_argument, "'{}' must be an integer", key);
  if (number < min || number > max)
    return fail(Code::invalid_argument, "'{}' must be between {} and {}", key, min, max);
  return number;
}

Result<std::optional<bool>> bool_member(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return fail(Code::invalid_argument, "'{}' must be true or false", key);
  return value->get_bool();
}

Result<std::string> require_text(const JsonObject& object, std::string_view key) {
  SPACE_TRY(auto value, text_member(object, key));
  if (!value) return fail(Code::invalid_argument, "'{}' is missing", key);
  return *std::move(value);
}

Result<std::int64_t> require_int(const JsonObject& object, std::string_view key, std::int64_t min,
                                 std::int64_t max) {
  SPACE_TRY(auto value, int_member(object, key, min, max));
  if (!value) return fail(Code::invalid_argument, "'{}' is missing", key);
  return *value;
}

Result<const JsonObject*> object_member(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value != nullptr && !value->is_object())
    return fail(Code::invalid_argument, "'{}' must be an object", key);
  return value == nullptr ? nullptr : &value->get_object();
}

Result<const JsonArray*> array_member(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value != nullptr && !value->is_array())
    return fail(Code::invalid_argument, "'{}' must be an array", key);
  return value == nullptr ? nullptr : &value->get_array();
}

}  // namespace space
