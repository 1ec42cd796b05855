#include "net/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "net/http_text.h"

namespace space::http {
namespace {

namespace beast = boost::beast;
using ErrorCode = beast::error_code;
using View = beast::string_view;
using FieldName = beast::http::field;
using OptionalLength = boost::optional<std::uint64_t>;

constexpr std::size_t fields_max = 256;

std::unexpected<Error> malformed(std::string_view what, const ErrorCode& error) {
  return fail(Code::invalid_argument, "malformed {}: {}", what, error.message());
}

// Beast's grammar with our storage: what it finds goes into our Fields without a copy between.
template <bool is_request>
class HeadParser final : public beast::http::basic_parser<is_request> {
 public:
  HeadParser() { this->header_limit(head_limit_bytes + 1); }

  std::string method;
  std::string target;
  Fields fields;
  int status = 0;
  bool http_1_1 = true;

 private:
  void on_request_impl(beast::http::verb, View method_text, View target_text, int version,
                       ErrorCode&) override {
    method.assign(method_text.data(), method_text.size());
    target.assign(target_text.data(), target_text.size());
    http_1_1 = version == 11;
  }
  void on_response_impl(int code, View, int version, ErrorCode&) override {
    status = code;
    http_1_1 = version == 11;
  }
  void on_field_impl(FieldName, View name, View value, ErrorCode& error) override {
    if (fields.all().size() == fields_max) {
      error = beast::http::error::header_limit;
      return;
    }
    fields.add({name.data(), name.size()}, {value.data(), value.size()});
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const OptionalLength&, ErrorCode&) override {}
  std::size_t on_body_impl(View, ErrorCode&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, View, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View, ErrorCode&) override { return 0; }
  void on_finish_impl(ErrorCode&) override {}
};

template <bool is_request>
Result<void> parse(HeadParser<is_request>& parser, std::string_view head, std::string_view what) {
  ErrorCode error;
  parser.body_limit(boost::none);
  const std::size_t n = parser.put(boost::asio::buffer(head), error);
  if (error) return malformed(what, error);
  if (!parser.is_header_done() || n != head.size()) return fail(Code::invalid_argument, "malformed {}", what);
  return {};
}

// Beast reads any list that ends in "chunked" and leaves other codings to its caller: we know one coding.
Result<bool> is_chunked(const Fields& fields, bool http_1_1) {
  const auto coding = fields.get("Transfer-Encoding");
  if (!coding) return false;
  if (!http_1_1) return fail(Code::invalid_argument, "Transfer-Encoding in HTTP/1.0");
  if (fields.get("Content-Length")) {
    return fail(Code::invalid_argument, "both Content-Length and Transfer-Encoding");
  }
  if (fields.count("Transfer-Encoding") > 1 || !equal_without_case(*coding, "chunked")) {
    return fail(Code::invalid_argument, "a Transfer-Encoding other than chunked");
  }
  return true;
}

std::optional<std::uint64_t> to_optional(const OptionalLength& length) {
  return length ? std::optional(*length) : std::nullopt;
}

// "http://host/path" is legal from any client; its authority replaces Host.
Result<void> normalize_target(RequestHead& head) {
  if (head.method == "CONNECT" || head.target.starts_with('/') || head.target == "*") return {};
  const std::size_t scheme = head.target.find("://");
  const std::string_view name = std::string_view(head.target).substr(0, scheme);
  if (scheme == std::string::npos ||
      !(equal_without_case(name, "http") || equal_without_case(name, "https"))) {
    return fail(Code::invalid_argument, "malformed request target");
  }
  const std::string rest = head.target.substr(scheme + 3);
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  if (path == 0) return fail(Code::invalid_argument, "malformed request target");
  head.fields.set("Host", rest.substr(0, path));
  head.target = rest.substr(path);
  if (!head.target.starts_with('/')) head.target.insert(0, 1, '/');
  return {};
}

}  // namespace

Result<std::optional<HeadScanner::Span>> HeadScanner::scan(std::string_view bytes) {
  while (true) {
    const std::size_t newline = bytes.find('\n', scanned_);
    if (newline == std::string_view::npos) {
      scanned_ = bytes.size();
      if (scanned_ - begin_ >= head_limit_bytes) {
        return fail(Code::exhausted, "head is larger than {} bytes", head_limit_bytes);
      }
      return std::nullopt;
    }
    scanned_ = newline + 1;
    if (newline == line_ || bytes[newline - 1] != '\r') {
      return fail(Code::invalid_argument, "a line that does not end in CR LF");
    }
    const std::string_view line = bytes.substr(line_, newline - 1 - line_);
    const bool first = line_ == begin_;
    line_ = scanned_;
    if (line.empty() && !first) return Span{begin_, scanned_};
    if (line.empty()) begin_ = scanned_;
    if (!line.empty() && !first && (line[0] == ' ' || line[0] == '\t')) {
      return fail(Code::invalid_argument, "a folded header field");
    }
  }
}

Result<ParsedRequest> parse_request_head(std::string_view head) {
  HeadParser<true> parser;
  SPACE_CHECK(parse(parser, head, "request"));
  ParsedRequest request;
  request.http_1_1 = parser.http_1_1;
  request.head.method = std::move(parser.method);
  request.head.target = std::move(parser.target);
  request.head.fields = std::move(parser.fields);
  const Fields& fields = request.head.fields;
  // More than one Host can be routed by one and served by another; none at all is the router's to judge.
  if (fields.count("Host") > 1) return fail(Code::invalid_argument, "more than one Host");
  SPACE_TRY(request.head.chunked, is_chunked(fields, parser.http_1_1));
  SPACE_CHECK(normalize_target(request.head));
  request.head.content_length = to_optional(parser.content_length());
  request.head.keep_alive = parser.http_1_1 && parser.keep_alive();
  request.framing = request.head.chunked      ? Framing::chunked
                    : request.head.has_body() ? Framing::length
                                              : Framing::none;
  request.expects_continue =
      parser.http_1_1 && request.head.has_body() && fields.has_token("Expect", "100-continue");
  return request;
}

Result<ParsedResponse> parse_response_head(std::string_view head, std::string_view method) {
  HeadParser<false> parser;
  parser.skip(method == "HEAD" || method == "CONNECT");
  SPACE_CHECK(parse(parser, head, "response"));
  ParsedResponse response;
  response.head.status = parser.status;
  response.head.fields = std::move(parser.fields);
  SPACE_TRY(response.chunked, is_chunked(response.head.fields, parser.http_1_1));
  response.head.content_length = to_optional(parser.content_length());
  const int status = parser.status;
  if (status < 100) return fail(Code::invalid_argument, "malformed response: status {}", status);
  const bool bodiless = method == "HEAD" || (method == "CONNECT" && status / 100 == 2) || status / 100 == 1 ||
                        status == 204 || status == 304;
  if (!bodiless && response.chunked) response.framing = Framing::chunked;
  if (!bodiless && !response.chunked) {
    response.framing = response.head.content_length ? Framing::length : Framing::until_close;
  }
  response.keep_alive = parser.keep_alive() && response.framing != Framing::until_close;
  return response;
}

}  // namespace space::http
