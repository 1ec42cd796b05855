// The head of a guest's plain HTTP request, read so strictly that no server can read it otherwise. Pure;
// hostile bytes; fuzzed.
#pragma once

#include <string>
#include <string_view>

#include "core/host_name.h"
#include "net/http_parser.h"

namespace space::netd {

struct GuestRequest {
  http::ParsedRequest parsed;  // the target in origin form
  HostPort host;
  std::string path;        // without query
  bool websocket = false;  // asks to become one
  bool http2 = false;      // asks to become HTTP/2, which is not passed on
};

// `head`: from the request line to the empty line. invalid_argument says what is wrong with it.
Result<GuestRequest> read_guest_request(std::string_view head);

// What goes to the server: every byte is written anew, and nothing that concerns the guest's own connection
// is among it.
http::RequestHead head_for_upstream(const GuestRequest& request);
// The same for an answer on its way to the guest; `switching`: 101 to a websocket.
http::Fields fields_for_guest(const http::Fields& fields, bool switching);

}  // namespace space::netd
