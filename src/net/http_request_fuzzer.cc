// A server's reading side: the head found in pieces and at once agree, and a chunked body decodes the same
// however it is split.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "net/http_chunks.h"
#include "net/http_parser.h"

namespace {

using namespace space;
using namespace space::http;

void require(bool condition) {
  if (!condition) std::abort();
}

std::optional<HeadScanner::Span> find_head(std::string_view text, std::size_t step) {
  HeadScanner scanner;
  for (std::size_t have = 0; have < text.size(); have += step) {
    const auto span = scanner.scan(text.substr(0, have));
    if (!span) return std::nullopt;
    if (*span) return *span;
  }
  const auto span = scanner.scan(text);
  return span ? *span : std::nullopt;
}

struct Decoded {
  std::string body;
  bool ok = false;
};

Decoded decode(std::string_view text, std::size_t step) {
  ChunkDecoder decoder;
  Decoded decoded;
  std::vector<std::byte> out(step);
  for (std::size_t at = 0; !decoder.done();) {
    const auto progress = decoder.decode(text.substr(at, step), out);
    if (!progress) return decoded;
    require(progress->produced <= out.size());
    decoded.body += as_text(std::span(out).first(progress->produced));
    at += progress->consumed;
    if (progress->consumed == 0) return decoded;  // only for want of input, as `out` is empty each time
  }
  decoded.ok = true;
  return decoded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto whole = find_head(text, text.size() + 1);
  const auto pieces = find_head(text, 3);
  if (!whole) return 0;
  require(pieces && pieces->begin == whole->begin && pieces->end == whole->end);
  const auto request = parse_request_head(text.substr(whole->begin, whole->end - whole->begin));
  if (!request) return 0;
  const Fields& fields = request->head.fields;
  require(!(fields.get("Content-Length") && fields.get("Transfer-Encoding")));
  require((request->framing != Framing::none) == request->head.has_body());
  (void)parse_query(request->head.query());
  if (request->framing == Framing::chunked) {
    const std::string_view body = text.substr(whole->end);
    const Decoded at_once = decode(body, body.size() + 1);
    const Decoded by_bytes = decode(body, 1);
    require(at_once.ok == by_bytes.ok && (!at_once.ok || at_once.body == by_bytes.body));
  }
  return 0;
}
