// Text of unknown origin as JSON strings.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace space {

// Appends `text` as a JSON string literal, quotes included. Bytes that are not UTF-8 become U+FFFD,
// control characters are escaped: the result is valid JSON whatever a guest or client sent.
void append_json_string(std::string& out, std::string_view text);

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none.
std::size_t utf8_length(std::string_view text);

}  // namespace space
