#include "net/h2_head.h"

#include <algorithm>
#include <charconv>

#include "net/http_text.h"

namespace space {
namespace {

constexpr std::size_t fields_max = 256;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::invalid_argument, "malformed request: {}", what);
}

Result<std::optional<std::uint64_t>> content_length(const http::Fields& fields) {
  const auto text = fields.get("Content-Length");
  if (!text) return std::nullopt;
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), length);
  if (fields.count("Content-Length") > 1 || error != std::errc() || end != text->data() + text->size())
    return malformed("Content-Length");
  return length;
}

// A space or '@' would make it more than a host and a port.
bool is_authority(std::string_view text) {
  return http::is_target(text) && text.find_first_of("@/?#") == std::string_view::npos;
}

Result<void> set_host(http::Fields& fields, const std::string& authority) {
  const auto host = fields.get("Host");
  if (fields.count("Host") > 1) return malformed("more than one Host");
  if (!authority.empty() && host && !http::equal_without_case(*host, authority))
    return malformed("Host is not :authority");
  if (authority.empty()) return {};
  if (!is_authority(authority)) return malformed(":authority");
  fields.set("Host", authority);
  return {};
}

// HTTP/2 clients may cut the field into several, which HTTP/1.1 does not know (RFC 9113, 8.2.3).
void join_cookies(http::Fields& fields) {
  if (fields.count("Cookie") < 2) return;
  std::string all;
  for (const auto& [name, value] : fields.all())
    if (http::equal_without_case(name, "Cookie")) all.append(all.empty() ? "" : "; ").append(value);
  fields.set("Cookie", all);
}

std::string lower_case(std::string_view name) {
  std::string out(name);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return out;
}

}  // namespace

Result<http::RequestHead> to_request_head(H2RequestHead head) {
  if (head.fields.all().size() > fields_max)
    return fail(Code::exhausted, "more than {} header fields", fields_max);
  if (!http::is_method(head.method)) return malformed(":method");
  if (head.method == "CONNECT") return malformed("CONNECT is not served here");
  const bool whole_server = head.method == "OPTIONS" && head.path == "*";
  if (!whole_server && (!head.path.starts_with('/') || !http::is_target(head.path)))
    return malformed(":path");
  SPACE_CHECK(http::check_fields(head.fields));
  for (const auto& [name, value] : head.fields.all())
    if (http::is_connection_field(name)) return malformed("a field about the connection");
  SPACE_CHECK(set_host(head.fields, head.authority));
  join_cookies(head.fields);

  http::RequestHead out;
  SPACE_TRY(out.content_length, content_length(head.fields));
  if (head.ended && out.content_length.value_or(0) > 0) return malformed("no body but a Content-Length");
  out.chunked = !head.ended && !out.content_length;
  out.method = std::move(head.method);
  out.target = std::move(head.path);
  out.fields = std::move(head.fields);
  return out;
}

Result<H2Fields> to_h2_fields(const http::ResponseHead& head, std::optional<std::uint64_t> length) {
  if (head.status < 200 || head.status > 999)
    return fail(Code::internal, "status {} cannot be an answer over HTTP/2", head.status);
  SPACE_CHECK(http::check_fields(head.fields));
  H2Fields out{{":status", std::to_string(head.status)}};
  for (const auto& [name, value] : head.fields.all()) {
    if (http::is_connection_field(name) || http::equal_without_case(name, "Content-Length")) continue;
    out.emplace_back(lower_case(name), value);
  }
  if (length) out.emplace_back("content-length", std::to_string(*length));
  return out;
}

}  // namespace space
