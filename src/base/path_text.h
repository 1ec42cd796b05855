// File names are bytes; the protocol's texts are UTF-8. A byte of a name that belongs to no UTF-8 character
// is shown as the private-use character U+EF00 + byte (U+EF80 to U+EFFF), and these characters in a path mean
// those bytes: every name a client is shown leads back to its file. Pure.
#pragma once

#include <string>
#include <string_view>

namespace space {

std::string text_of_path(std::string_view path);  // always UTF-8; path_of_text of it is `path` again
std::string path_of_text(std::string_view text);  // bytes for the system
std::string shown_path(std::string_view path);    // for messages: text, cut to some hundred bytes

}  // namespace space
