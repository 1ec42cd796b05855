// Writing heads, and the text helpers both directions share. Pure; internal to net.
#pragma once

#include <string>
#include <string_view>

#include "net/http.h"

namespace space::http {

bool equal_without_case(std::string_view a, std::string_view b);

// Names that are tokens, values without control characters; else Code::invalid_argument.
Result<void> check_fields(const Fields& fields);
bool is_method(std::string_view text);
bool is_target(std::string_view text);  // not empty, no control character, no space
// Fields about one connection alone, which HTTP/2 forbids: Connection, Keep-Alive, Upgrade, …
bool is_connection_field(std::string_view name);

// How the body is framed is written by these from `content_length` and `chunked`; Content-Length and
// Transfer-Encoding among the fields are left out. A name, value or target that would break the line
// structure is Code::invalid_argument, and nothing is appended.
Result<void> append_request_head(std::string& out, const RequestHead& head);
struct ResponseFraming {
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool close = false;  // "Connection: close" in place of what the fields say
};
Result<void> append_response_head(std::string& out, const ResponseHead& head, ResponseFraming framing);

// "1f4\r\n"
void append_chunk_size(std::string& out, std::size_t size);

}  // namespace space::http
