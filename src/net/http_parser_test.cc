#include "net/http_parser.h"

#include <gtest/gtest.h>

namespace space::http {
namespace {

constexpr std::string_view simple = "POST /files?path=a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";

TEST(HeadScanner, FindsTheEndWhateverTheSplit) {
  const std::string bytes = "\r\n\r\n" + std::string(simple) + "body";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    HeadScanner scanner;
    std::optional<HeadScanner::Span> span;
    for (std::size_t have = 0; !span && have <= bytes.size(); have += step) {
      span = *scanner.scan(std::string_view(bytes).substr(0, have));
    }
    if (!span) span = *scanner.scan(bytes);
    ASSERT_TRUE(span) << step;
    EXPECT_EQ(bytes.substr(span->begin, span->end - span->begin), simple);
  }
}

TEST(HeadScanner, BlankUntilAHeadBegins) {
  HeadScanner scanner;
  EXPECT_TRUE(scanner.blank(""));
  EXPECT_FALSE(*scanner.scan("\r\n"));
  EXPECT_TRUE(scanner.blank("\r\n"));
  EXPECT_FALSE(*scanner.scan("\r\nG"));
  EXPECT_FALSE(scanner.blank("\r\nG"));
}

TEST(HeadScanner, Refusals) {
  for (const std::string_view bytes :
       {"GET / HTTP/1.1\n", "\n", "GET / HTTP/1.1\r\nA: b\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\n A: b\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n"}) {
    HeadScanner scanner;
    const auto span = scanner.scan(bytes);
    ASSERT_FALSE(span) << bytes;
    EXPECT_EQ(span.error().code, Code::invalid_argument);
  }
  HeadScanner scanner;
  EXPECT_EQ(scanner.scan(std::string(head_limit_bytes, 'a')).error().code, Code::exhausted);
}

TEST(RequestHead, Plain) {
  const auto request = *parse_request_head(simple);
  EXPECT_EQ(request.head.method, "POST");
  EXPECT_EQ(request.head.path(), "/files");
  EXPECT_EQ(request.head.query(), "path=a");
  EXPECT_EQ(request.head.content_length, 4U);
  EXPECT_TRUE(request.head.keep_alive);
  EXPECT_EQ(request.framing, Framing::length);
  EXPECT_EQ(request.head.fields.get("host"), "h");
}

TEST(RequestHead, ConnectionAndVersion) {
  EXPECT_FALSE(parse_request_head("GET / HTTP/1.1\r\nConnection: foo, Close\r\n\r\n")->head.keep_alive);
  EXPECT_FALSE(parse_request_head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")->head.keep_alive);
  const auto upgrade =
      *parse_request_head("GET / HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n");
  EXPECT_TRUE(upgrade.head.wants_upgrade());
  EXPECT_TRUE(parse_request_head("PUT / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n")
                  ->expects_continue);
  EXPECT_FALSE(parse_request_head("GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")->expects_continue);
  EXPECT_EQ(parse_request_head("PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n")->framing,
            Framing::chunked);
}

TEST(RequestHead, Targets) {
  const auto absolute = *parse_request_head("GET http://a.b:80?q=1 HTTP/1.1\r\nHost: other\r\n\r\n");
  EXPECT_EQ(absolute.head.target, "/?q=1");
  EXPECT_EQ(absolute.head.fields.get("Host"), "a.b:80");
  EXPECT_EQ(absolute.head.fields.count("Host"), 1U);
  EXPECT_EQ(parse_request_head("CONNECT h:1 HTTP/1.1\r\n\r\n")->head.target, "h:1");
  EXPECT_EQ(parse_request_head("OPTIONS * HTTP/1.1\r\n\r\n")->head.target, "*");
}

TEST(RequestHead, Refusals) {
  for (const std::string_view head : {
           "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 4, 5\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: -4\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 0x4\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 4 4\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
           "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length : 4\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET / HTTP/2.0\r\n\r\n",
           "GET / HTTP/0.9\r\n\r\n",
           "GET /\r\n\r\n",
           "GET  / HTTP/1.1\r\n\r\n",
           "GET /a b HTTP/1.1\r\n\r\n",
           "GET a HTTP/1.1\r\n\r\n",
           "GET ftp://a/ HTTP/1.1\r\n\r\n",
           "GET http:/// HTTP/1.1\r\n\r\n",
           "G\x01T / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\n: x\r\n\r\n",
           "GET / HTTP/1.1\r\nA\r\n\r\n",
           "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
           "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",
       }) {
    const auto request = parse_request_head(head);
    ASSERT_FALSE(request) << head;
    EXPECT_EQ(request.error().code, Code::invalid_argument) << head;
  }
  EXPECT_FALSE(parse_request_head(std::string("GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", 27)));
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 257; ++i) many += "A: b\r\n";
  EXPECT_FALSE(parse_request_head(many + "\r\n"));
}

TEST(RequestHead, SameLengthTwiceIsOneLength) {
  EXPECT_EQ(parse_request_head("POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n")
                ->head.content_length,
            4U);
}

TEST(ResponseHead, Framing) {
  const auto framing = [](std::string_view head, std::string_view method = "GET") {
    const auto response = parse_response_head(head, method);
    EXPECT_TRUE(response) << head;
    return response->framing;
  };
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"), Framing::length);
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Framing::chunked);
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\n\r\n"), Framing::until_close);
  EXPECT_EQ(framing("HTTP/1.1 204 No Content\r\n\r\n"), Framing::none);
  EXPECT_EQ(framing("HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n"), Framing::none);
  EXPECT_EQ(framing("HTTP/1.1 100 Continue\r\n\r\n"), Framing::none);
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD"), Framing::none);
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\n\r\n", "CONNECT"), Framing::none);
  EXPECT_EQ(framing("HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\n", "CONNECT"), Framing::length);
}

TEST(ResponseHead, KeepAlive) {
  EXPECT_TRUE(parse_response_head("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "GET")->keep_alive);
  EXPECT_TRUE(parse_response_head("HTTP/1.1 200 OK\r\n\r\n", "HEAD")->keep_alive);
  EXPECT_FALSE(parse_response_head("HTTP/1.1 200 OK\r\n\r\n", "GET")->keep_alive);
  EXPECT_FALSE(parse_response_head("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", "GET")->keep_alive);
  EXPECT_FALSE(parse_response_head("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n", "GET")
                   ->keep_alive);
}

TEST(ResponseHead, Refusals) {
  for (const std::string_view head : {
           "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
           "HTTP/1.1 20 OK\r\n\r\n",
           "HTTP/1.1 099 OK\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/3.1 200 OK\r\n\r\n",
           "ICY 200 OK\r\n\r\n",
       }) {
    EXPECT_FALSE(parse_response_head(head, "GET")) << head;
  }
}

}  // namespace
}  // namespace space::http
