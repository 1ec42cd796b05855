// Json: Boost.JSON with our limits and our errors. The accessors never throw and never convert silently.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace space {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

// One whole document; depth at most 32, invalid UTF-8 and trailing bytes refused. The error says where.
Result<Json> parse_json(std::string_view text);
// The same, and it must be an object. `what` names the document in the error.
Result<JsonObject> parse_json_object(std::string_view text, std::string_view what);
std::string to_text(const Json& value);

// Optional members: absent or null -> nullopt; another type or out of range -> invalid_argument naming the
// key.
Result<std::optional<std::string>> text_member(const JsonObject& object, std::string_view key);
Result<std::optional<std::int64_t>> int_member(const JsonObject& object, std::string_view key,
                                               std::int64_t min, std::int64_t max);
Result<std::optional<bool>> bool_member(const JsonObject& object, std::string_view key);
// The same for a member that must be there.
Result<std::string> require_text(const JsonObject& object, std::string_view key);
Result<std::int64_t> require_int(const JsonObject& object, std::string_view key, std::int64_t min,
                                 std::int64_t max);
// nullptr when absent or null; an error when it is something else.
Result<const JsonObject*> object_member(const JsonObject& object, std::string_view key);
Result<const JsonArray*> array_member(const JsonObject& object, std::string_view key);

}  // namespace space
