#include "netd/http_request.h"

#include <gtest/gtest.h>

#include "net/http_text.h"

namespace space::netd {
namespace {

std::string head(std::initializer_list<std::string_view> lines) {
  std::string text;
  for (const std::string_view line : lines) text.append(line).append("\r\n");
  return text + "\r\n";
}

// What the server gets for it, or why not.
std::string forwarded(std::string_view text) {
  const auto request = read_guest_request(text);
  if (!request) return "refused: " + request.error().message;
  std::string out;
  const auto written = http::append_request_head(out, head_for_upstream(*request));
  return written ? out : "refused: " + written.error().message;
}

bool refused(std::string_view text) {
  const auto request = read_guest_request(text);
  return !request && request.error().code == Code::invalid_argument;
}

TEST(HttpRequest, is_written_anew) {
  EXPECT_EQ(
      forwarded(head({"GET /a?b HTTP/1.1", "Host: Example.COM.:80", "Connection: keep-alive, x",
                      "Keep-Alive: 5", "TE: trailers", "User-Agent:  two  words ", "Proxy-Connection: a"})),
      "GET /a?b HTTP/1.1\r\nHost: example.com:80\r\nUser-Agent: two  words\r\n\r\n");
  EXPECT_EQ(
      forwarded(head({"POST / HTTP/1.1", "Host: a.b", "Transfer-Encoding: chunked", "Expect: 100-continue"})),
      "POST / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(forwarded(head({"GET / HTTP/1.0", "Host: a.b", "Content-Length: 3"})),
            "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n\r\n");
}

// Attack case 15.
TEST(HttpRequest, an_absolute_target_is_its_host) {
  const auto absolute = [](std::string_view target, std::string_view host) {
    return head({fmt::format("GET {} HTTP/1.1", target), fmt::format("Host: {}", host)});
  };
  EXPECT_EQ(forwarded(absolute("http://A.b/x?y", "a.B")), "GET /x?y HTTP/1.1\r\nHost: a.b\r\n\r\n");
  EXPECT_FALSE(refused(absolute("http://a.b:80/", "a.b")));
  EXPECT_FALSE(refused(absolute("http://a.b?x", "a.b")));
  for (const char* target :
       {"http://other/", "http://other.b/", "http://a.b:81/", "http://u@a.b/", "https://a.b/", "ftp://a.b/",
        "http:///", "http://", "a.b/", "//a.b/", "/x#y", "http://a.b/#"})
    EXPECT_EQ(refused(absolute(target, "a.b")), std::string_view(target) != "//a.b/") << target;
}

// Attack case 16.
TEST(HttpRequest, hosts_have_one_meaning_or_none) {
  for (const char* same : {"allowed.com", "ALLOWED.com", "allowed.com.", "allowed.com:443"}) {
    const auto request = read_guest_request(head({"GET / HTTP/1.1", fmt::format("Host: {}", same)}));
    ASSERT_TRUE(request) << same;
    EXPECT_EQ(request->host.host.name, "allowed.com");
  }
  const auto umlaut = read_guest_request(head({"GET / HTTP/1.1", "Host: xn--bcher-kva.example"}));
  ASSERT_TRUE(umlaut);
  EXPECT_EQ(umlaut->host.host.name, "xn--bcher-kva.example");
  for (const char* host : {"user@allowed.com",
                           "allowed.com\t",
                           "\tallowed.com",
                           "allowed.com ",
                           "allowed\t.com",
                           "allowed .com",
                           "allowed.com..",
                           "",
                           "2130706433",
                           "0x7f.1",
                           "0177.0.0.1",
                           "127.1",
                           "[fe80::1%25eth0]",
                           "allowed.com:x",
                           "allowed.com:",
                           "allowed.com:0",
                           "allowed.com:99999",
                           "a/b",
                           "a\\b",
                           "a%00b",
                           "allowed.com, other.com"})
    EXPECT_TRUE(refused(head({"GET / HTTP/1.1", fmt::format("Host: {}", host)}))) << host;
  EXPECT_TRUE(refused(head({"GET / HTTP/1.1", "Host: a.b", "Host: a.b"})));
  EXPECT_TRUE(refused(head({"GET / HTTP/1.1", "Host: a.b", "hOST: c.d"})));
  EXPECT_TRUE(refused(head({"GET / HTTP/1.1", "User-Agent: x"})));
  EXPECT_TRUE(refused(head({"GET / HTTP/1.0"})));
}

// Attack case 33: nothing that two parsers may read differently.
TEST(HttpRequest, smuggling_is_refused) {
  const auto with = [](std::initializer_list<std::string_view> fields) {
    std::string text = "POST / HTTP/1.1\r\nHost: a.b\r\n";
    for (const std::string_view field : fields) text.append(field).append("\r\n");
    return text + "\r\n";
  };
  EXPECT_FALSE(refused(with({"Content-Length: 5"})));
  EXPECT_FALSE(refused(with({"Transfer-Encoding: chunked"})));
  const std::vector<std::string> bad = {
      with({"Content-Length: 5", "Transfer-Encoding: chunked"}),
      with({"Transfer-Encoding: chunked", "Content-Length: 5"}),
      with({"Transfer-Encoding : chunked"}),
      with({"Transfer-Encoding: xchunked"}),
      with({"Transfer-Encoding:\tchunked"}),
      with({"Transfer-Encoding: chunked\t"}),
      with({"Transfer-Encoding: \x0b"
            "chunked"}),
      with({"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}),
      with({"Transfer-Encoding: chunked, identity"}),
      with({"Transfer-Encoding: gzip, chunked"}),
      with({"Content-Length: 5", "Content-Length: 5"}),
      with({"Content-Length: 5", "Content-Length: 6"}),
      with({"Content-Length: 5, 5"}),
      with({"Content-Length: +5"}),
      with({"Content-Length: -5"}),
      with({"Content-Length: 0x5"}),
      with({"Content-Length: 5 "}),
      with({"Content-Length:"}),
      with({"Content-Length: 99999999999999999999"}),
      with({"X: a", " folded: b"}),
      with({"X: a\rY: b"}),
      with({"X: a\nY: b"}),
      with({std::string_view("X: a\0b", 6)}),
      with({"no colon"}),
      with({": no name"}),
      with({"a b: c"}),
      with({"\xc3\xa4: c"}),
      "POST  / HTTP/1.1\r\nHost: a.b\r\n\r\n",
      "POST / HTTP/1.1 \r\nHost: a.b\r\n\r\n",
      " POST / HTTP/1.1\r\nHost: a.b\r\n\r\n",
      "POST /a b HTTP/1.1\r\nHost: a.b\r\n\r\n",
      "POST /\tHTTP/1.1\r\nHost: a.b\r\n\r\n",
      "POST / HTTP/1.2\r\nHost: a.b\r\n\r\n",
      "POST / HTTP/2.0\r\nHost: a.b\r\n\r\n",
      "POST /\r\nHost: a.b\r\n\r\n",
      "POST / HTTP/1.0\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST / HTTP/1.1\nHost: a.b\n\n",
      "POST / HTTP/1.1\r\nHost: a.b\r\n\r\ntrailing",
      "POST / HTTP/1.1\r\nHost: a.b\r\n",
  };
  for (const std::string& text : bad) EXPECT_TRUE(refused(text)) << text;
}

TEST(HttpRequest, too_many_fields_are_refused) {
  const auto with_fields = [](int count) {
    std::string text = "GET / HTTP/1.1\r\nHost: a.b\r\n";
    for (int i = 1; i < count; ++i) text += fmt::format("X-{}: y\r\n", i);
    return text + "\r\n";
  };
  EXPECT_FALSE(refused(with_fields(100)));
  EXPECT_TRUE(refused(with_fields(101)));
}

TEST(HttpRequest, a_path_is_the_one_the_server_sees) {
  for (const char* path : {"/a/../b", "/..", "/a/.", "/a/%2e%2E/b", "/a/.%2e/b", "/a\\..\\b", "/./a"})
    EXPECT_TRUE(refused(head({fmt::format("GET {} HTTP/1.1", path), "Host: a.b"}))) << path;
  for (const char* path : {"/a..b", "/.well-known/x", "/...", "/a?x=/../", "/%2e%2e%2e"}) {
    const auto request = read_guest_request(head({fmt::format("GET {} HTTP/1.1", path), "Host: a.b"}));
    ASSERT_TRUE(request) << path;
    EXPECT_EQ(request->path, std::string_view(path).substr(0, std::string_view(path).find('?')));
  }
}

TEST(HttpRequest, only_websockets_are_upgrades) {
  const auto upgrade = [](std::string_view to, std::string_view version = "HTTP/1.1") {
    return head({fmt::format("GET /s {}", version), "Host: a.b", "Connection: Upgrade, HTTP2-Settings",
                 fmt::format("Upgrade: {}", to), "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
                 "Sec-WebSocket-Key: k"});
  };
  EXPECT_EQ(forwarded(upgrade("websocket")),
            "GET /s HTTP/1.1\r\nHost: a.b\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\nUpgrade: "
            "websocket\r\n\r\n");
  const std::string plain = "GET /s HTTP/1.1\r\nHost: a.b\r\nSec-WebSocket-Key: k\r\n\r\n";
  EXPECT_EQ(forwarded(upgrade("h2c")), plain);
  EXPECT_EQ(forwarded(upgrade("anything")), plain);
  EXPECT_EQ(forwarded(upgrade("websocket", "HTTP/1.0")), plain);
}

}  // namespace
}  // namespace space::netd
