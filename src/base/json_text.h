// Appends `text` as a JSON string literal, quotes included. Bytes that are not UTF-8 become U+FFFD,
// control characters are escaped: the result is valid JSON whatever a guest or client sent.
#pragma once

#include <string>
#include <string_view>

namespace space {

void append_json_string(std::string& out, std::string_view text);

}  // namespace space
