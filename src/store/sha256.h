// SHA-256 of a text, as 64 lower-case hex digits. Pure.
#pragma once

#include <string>
#include <string_view>

namespace space {

std::string sha256_hex(std::string_view text);

}  // namespace space
