#include "net/h2_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace space {
namespace {

using testing::ElementsAre;
using testing::Pair;

H2RequestHead request(std::vector<std::pair<std::string, std::string>> fields = {}) {
  H2RequestHead head{
      .method = "POST", .path = "/files?path=a", .authority = "sandbox.test:3000", .fields = {}};
  for (const auto& [name, value] : fields) head.fields.add(name, value);
  return head;
}

TEST(H2Head, ARequestBecomesOneOfHttp1) {
  const auto head = to_request_head(request({{"x-access-token", "t"}, {"cookie", "a=1"}, {"cookie", "b=2"}}));
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/files?path=a");
  EXPECT_EQ(head->fields.get("Host"), "sandbox.test:3000");
  EXPECT_EQ(head->fields.get("X-Access-Token"), "t");
  EXPECT_EQ(head->fields.get("Cookie"), "a=1; b=2");
  EXPECT_EQ(head->fields.count("cookie"), 1U);
  EXPECT_TRUE(head->keep_alive);
}

TEST(H2Head, FramingComesFromTheStream) {
  auto ended = request();
  ended.ended = true;
  EXPECT_FALSE(to_request_head(ended)->has_body());
  EXPECT_TRUE(to_request_head(request())->chunked);
  const auto known = to_request_head(request({{"content-length", "12"}}));
  EXPECT_EQ(known->content_length, 12U);
  EXPECT_FALSE(known->chunked);
}

TEST(H2Head, HostMayStandForTheAuthority) {
  auto head = request({{"host", "other.test"}});
  EXPECT_EQ(to_request_head(head).error().code, Code::invalid_argument);
  head.authority.clear();
  EXPECT_EQ(to_request_head(head)->fields.get("Host"), "other.test");
  EXPECT_TRUE(to_request_head(request({{"host", "SANDBOX.test:3000"}})));
}

TEST(H2Head, WhatCouldBeReadInTwoWaysIsRefused) {
  using namespace std::string_literals;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"x", "a\r\nX-Other: b"},
                                                        {"x", "a\nb"},
                                                        {"x", "a\0b"s},
                                                        {"x y", "1"},
                                                        {"x:", "1"},
                                                        {"", "1"},
                                                        {"x\r\ny", "1"},
                                                        {"transfer-encoding", "chunked"},
                                                        {"connection", "x-access-token"},
                                                        {"keep-alive", "1"},
                                                        {"upgrade", "websocket"},
                                                        {"proxy-connection", "close"},
                                                        {"content-length", "+1"},
                                                        {"content-length", "1, 1"},
                                                        {"content-length", ""},
                                                        {"content-length", "99999999999999999999"}})
    EXPECT_EQ(to_request_head(request({{name, value}})).error().code, Code::invalid_argument)
        << name << value;
  EXPECT_FALSE(to_request_head(request({{"content-length", "1"}, {"content-length", "1"}})));
  EXPECT_FALSE(to_request_head(request({{"host", "a"}, {"host", "a"}})));
  auto ended = request({{"content-length", "1"}});
  ended.ended = true;
  EXPECT_FALSE(to_request_head(ended));

  const auto refused = [](auto change) {
    auto head = request();
    change(head);
    return !to_request_head(std::move(head));
  };
  for (const std::string path : {"", "files", "*", "/a b", "/a\r\nHost: b", "http://other/"})
    EXPECT_TRUE(refused([&](auto& head) { head.path = path; })) << path;
  for (const std::string method : {"", "GE T", "G\r\nX", "CONNECT"})
    EXPECT_TRUE(refused([&](auto& head) { head.method = method; })) << method;
  for (const std::string authority : {"a b", "a\r\nX: y", "user@a", "a/b"})
    EXPECT_TRUE(refused([&](auto& head) { head.authority = authority; })) << authority;
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST(H2Head, TooManyFieldsAreTooLarge) {
  auto head = request();
  for (int i = 0; i < 257; ++i) head.fields.add("x", "y");
  EXPECT_EQ(to_request_head(head).error().code, Code::exhausted);
}

TEST(H2Head, AnAnswerSaysNothingOfTheConnection) {
  http::ResponseHead head{.status = 404, .fields = {}};
  for (const char* name : {"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Content-Length"})
    head.fields.add(name, "1");
  head.fields.add("Content-Type", "Text/Plain");
  EXPECT_THAT(*to_h2_fields(head, 7), ElementsAre(Pair(":status", "404"), Pair("content-type", "Text/Plain"),
                                                  Pair("content-length", "7")));
  EXPECT_THAT(*to_h2_fields({.status = 200, .fields = {}}, std::nullopt),
              ElementsAre(Pair(":status", "200")));
  EXPECT_FALSE(to_h2_fields({.status = 101, .fields = {}}, std::nullopt));
  head.fields.add("X", "a\r\nb");
  EXPECT_FALSE(to_h2_fields(head, 7));
}

}  // namespace
}  // namespace space
