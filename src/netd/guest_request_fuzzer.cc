// A guest's request head that is passed on means the same to whoever reads it next: written anew and read
// again it has the same method, path, host and end, and nothing of the guest's own connection.
#include <cstdlib>

#include "net/http_text.h"
#include "netd/http_request.h"

namespace {

using namespace space;
using namespace space::netd;

void require(bool condition) {
  if (!condition) std::abort();
}

// One request: an empty line at its end and none before.
bool is_one_head(std::string_view text) {
  return text.find("\r\n\r\n") + 4 == text.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = read_guest_request(text);
  if (!request) return 0;
  require(is_one_head(text));
  const http::RequestHead head = head_for_upstream(*request);
  std::string written;
  if (!http::append_request_head(written, head)) return 0;
  require(is_one_head(written));
  const auto again = read_guest_request(written);
  require(again.has_value());
  require(again->host.host.text() == request->host.host.text() && again->host.port == request->host.port);
  require(again->path == request->path && again->websocket == request->websocket && !again->http2);
  const http::RequestHead& before = request->parsed.head;
  const http::RequestHead& after = again->parsed.head;
  require(after.method == before.method && after.target == before.target);
  require(after.content_length == before.content_length && after.chunked == before.chunked);
  for (const char* own : {"Keep-Alive", "TE", "Trailer", "Proxy-Connection", "HTTP2-Settings", "Expect"}) {
    require(!after.fields.get(own));
  }
  require(after.fields.count("Host") == 1);
  require(after.fields.count("Connection") == (request->websocket ? 1U : 0U));
  return 0;
}
