// Members of what the API sent, for printing: one that is absent or of another type is 0, false, "-" or none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace space::cli {

std::int64_t number_at(const JsonObject& object, std::string_view key);
std::optional<std::int64_t> number_if(const JsonObject& object, std::string_view key);  // never negative
std::string text_at(const JsonObject& object, std::string_view key, std::string_view otherwise = "-");
bool flag_at(const JsonObject& object, std::string_view key);
std::string bytes_at(const JsonObject& object, std::string_view key);         // "1.5 MiB"
const JsonObject* object_at(const JsonObject& object, std::string_view key);  // nullptr: none
std::vector<JsonObject> objects_in(const Json& body, std::string_view key);   // members of a list
std::optional<Wall> time_at(const JsonObject& object, std::string_view key);
// "2026-11-30 13:37:01Z"; "?" for none.
std::string moment_text(std::optional<Wall> time);

}  // namespace space::cli
