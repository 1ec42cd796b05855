// The heads of HTTP/2 messages as heads of ours. Pure; untrusted; private to h2_*.
//
// What comes out may be written as HTTP/1.1 without meaning something else: nothing is left of what nghttp2
// checked already, but nothing rests on it either.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "net/http.h"

namespace space {

struct H2RequestHead {
  std::string method;
  std::string path;
  std::string authority;  // "" = there is none
  http::Fields fields;
  bool ended = false;  // with its head
};
// Host says what :authority did. Malformed: Code::invalid_argument; too many fields: Code::exhausted.
Result<http::RequestHead> to_request_head(H2RequestHead head);

// :status first, names in lower case. `length` of the body, if known. A status below 200 or a field that
// breaks the grammar is an error.
using H2Fields = std::vector<std::pair<std::string, std::string>>;
Result<H2Fields> to_h2_fields(const http::ResponseHead& head, std::optional<std::uint64_t> length);

}  // namespace space
