// Paths of requests, as rules compare them. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace space {

// `path` without query. `patterns` match themselves and, ending in "*", all they begin. A path that a server
// could read as another one (dot segments, doubled or encoded slashes, backslashes, encoded dots) matches
// none.
bool path_matches(std::span<const std::string> patterns, std::string_view path);

}  // namespace space
