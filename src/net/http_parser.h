// The pure half of reading HTTP/1.1 heads: finding them, parsing them. Untrusted bytes; fuzzed.
// Boost.Beast does the grammar and is included by http_parser.cc only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "net/http.h"

namespace space::http {

// How the end of a body is known.
enum class Framing : unsigned char { none, length, chunked, until_close };

// Finds the end of a head in bytes that arrive in pieces; every byte is looked at once. Refuses what two
// parsers may read differently: folded fields and lines that do not end in CR LF.
class HeadScanner {
 public:
  struct Span {
    std::size_t begin;  // after empty lines, which some clients send between messages
    std::size_t end;
  };
  // `bytes` starts where it started in the call before.
  Result<std::optional<Span>> scan(std::string_view bytes);
  // Nothing but empty lines so far.
  bool blank(std::string_view bytes) const { return begin_ == bytes.size(); }

 private:
  std::size_t begin_ = 0;
  std::size_t line_ = 0;
  std::size_t scanned_ = 0;
};

struct ParsedRequest {
  RequestHead head;
  bool http_1_1 = true;
  Framing framing = Framing::none;
  bool expects_continue = false;
};
Result<ParsedRequest> parse_request_head(std::string_view head);

struct ParsedResponse {
  ResponseHead head;
  bool keep_alive = false;
  bool chunked = false;
  Framing framing = Framing::none;
};
// `method` of the request it answers: HEAD has no body, CONNECT becomes a tunnel.
Result<ParsedResponse> parse_response_head(std::string_view head, std::string_view method);

}  // namespace space::http
