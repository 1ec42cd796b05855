#include "net/http_text.h"

#include <gtest/gtest.h>

namespace space::http {
namespace {

TEST(Fields, CompareWithoutCaseAndKeepOrder) {
  Fields fields;
  fields.add("Set-Cookie", "a");
  fields.add("X-One", "1");
  fields.add("set-cookie", "b");
  EXPECT_EQ(fields.get("SET-COOKIE"), "a");
  EXPECT_EQ(fields.count("Set-Cookie"), 2U);
  EXPECT_FALSE(fields.get("X-On"));
  fields.set("x-one", "2");
  EXPECT_EQ(fields.all().back().second, "2");
  fields.remove("Set-Cookie");
  EXPECT_EQ(fields.all().size(), 1U);
}

TEST(Fields, Tokens) {
  Fields fields;
  fields.add("Connection", "keep-alive ,\tUpgrade,");
  fields.add("connection", "x");
  EXPECT_TRUE(fields.has_token("Connection", "upgrade"));
  EXPECT_TRUE(fields.has_token("Connection", "Keep-Alive"));
  EXPECT_TRUE(fields.has_token("Connection", "x"));
  EXPECT_FALSE(fields.has_token("Connection", "keep"));
  EXPECT_FALSE(fields.has_token("Upgrade", "x"));
}

TEST(Heads, FramingIsOurs) {
  RequestHead head{.method = "PUT", .target = "/a", .fields = {}, .content_length = 7};
  head.fields.add("content-length", "99");
  head.fields.add("Transfer-Encoding", "chunked");
  head.fields.add("Host", "h");
  std::string text;
  EXPECT_TRUE(append_request_head(text, head));
  EXPECT_EQ(text, "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n");
}

TEST(Heads, NothingCanBreakTheLines) {
  std::string text;
  for (const char* value : {"a\r\nB: c", "a\nb", "a\rb", "\x01"}) {
    ResponseHead head;
    head.fields.add("A", value);
    EXPECT_FALSE(append_response_head(text, head, {})) << value;
  }
  for (const char* name : {"", "A B", "A:", "A\r\n"}) {
    ResponseHead head;
    head.fields.add(name, "v");
    EXPECT_FALSE(append_response_head(text, head, {})) << name;
  }
  EXPECT_FALSE(append_request_head(text, {.method = "GET", .target = "/a b"}));
  EXPECT_FALSE(append_request_head(text, {.method = "GET", .target = "/\r\nX: y"}));
  EXPECT_FALSE(append_request_head(text, {.method = "G T", .target = "/"}));
  EXPECT_FALSE(append_request_head(text, {.method = "GET", .target = ""}));
  EXPECT_FALSE(
      append_request_head(text, {.method = "PUT", .target = "/", .content_length = 1, .chunked = true}));
  EXPECT_EQ(text, "");
}

TEST(Url, Percent) {
  EXPECT_EQ(percent_decode("a%20b+c", false), "a b+c");
  EXPECT_EQ(percent_decode("a%20b+c", true), "a b c");
  EXPECT_EQ(percent_decode("%C3%a9", false), "\xc3\xa9");
  EXPECT_FALSE(percent_decode("%", false));
  EXPECT_FALSE(percent_decode("%4", false));
  EXPECT_FALSE(percent_decode("%4g", false));
  EXPECT_EQ(percent_encode("a b/\xc3\xa9~"), "a%20b%2F%C3%A9~");
}

TEST(Url, Query) {
  using Pair = std::pair<std::string, std::string>;
  const auto pairs = parse_query("path=%2Fa+b&flag&&bad=%zz&path=2&e=a=b");
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[0], Pair("path", "/a b"));
  EXPECT_EQ(pairs[1], Pair("flag", ""));
  EXPECT_EQ(pairs[3], Pair("e", "a=b"));
  EXPECT_EQ(query_value("path=%2Fa&path=2", "path"), "/a");
  EXPECT_FALSE(query_value("path=1", "pat"));
  EXPECT_TRUE(parse_query("").empty());
}

}  // namespace
}  // namespace space::http
