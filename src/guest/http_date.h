// Dates of HTTP fields (RFC 9110 section 5.6.7), in seconds since 1970. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace space::guest {

std::string to_http_date(std::int64_t seconds);  // Sun, 06 Nov 1994 08:49:37 GMT
// Any of the three forms; nullopt for everything else.
std::optional<std::int64_t> parse_http_date(std::string_view text);

}  // namespace space::guest
