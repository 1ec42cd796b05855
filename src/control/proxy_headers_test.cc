#include "control/proxy_headers.h"

#include <gtest/gtest.h>

namespace space::control {
namespace {

http::RequestHead request() {
  http::RequestHead head;
  head.method = "POST";
  head.target = "/x?y";
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"Host", "127.0.0.1:3000"},
                                                                  {"Connection", "keep-alive, X-Private"},
                                                                  {"Keep-Alive", "timeout=5"},
                                                                  {"X-Private", "1"},
                                                                  {"TE", "trailers"},
                                                                  {"Expect", "100-continue"},
                                                                  {"X-Access-Token", "t"},
                                                                  {"E2b-Traffic-Access-Token", "secret"},
                                                                  {"Cookie", "a"},
                                                                  {"Cookie", "b"}})
    head.fields.add(name, value);
  return head;
}

TEST(ProxyHeaders, HopByHopFieldsEndHere) {
  const auto out = to_guest(request(), {}, 8080);
  for (const char* name : {"Keep-Alive", "X-Private", "TE", "Expect", "E2b-Traffic-Access-Token", "Upgrade"})
    EXPECT_FALSE(out.fields.get(name)) << name;
  EXPECT_EQ(out.fields.get("Connection"), "close");
  EXPECT_EQ(out.fields.get("X-Access-Token"), "t");
  EXPECT_EQ(out.fields.get("Host"), "127.0.0.1:3000");
  EXPECT_EQ(out.fields.get("X-Forwarded-Host"), "127.0.0.1:3000");
  EXPECT_EQ(std::ranges::count(out.fields.all(), std::pair<std::string, std::string>("Cookie", "b")), 1);
  EXPECT_EQ(out.target, "/x?y");
}

TEST(ProxyHeaders, UpgradesPass) {
  auto head = request();
  head.fields.set("Connection", "Upgrade");
  head.fields.set("Upgrade", "websocket");
  const auto out = to_guest(head, {}, 8080);
  EXPECT_EQ(out.fields.get("Connection"), "Upgrade");
  EXPECT_EQ(out.fields.get("Upgrade"), "websocket");

  http::ResponseHead answer;
  answer.status = 101;
  answer.fields.add("Connection", "upgrade");
  answer.fields.add("Upgrade", "websocket");
  EXPECT_EQ(to_client(answer).fields.get("Upgrade"), "websocket");
  answer.status = 200;
  EXPECT_FALSE(to_client(answer).fields.get("Upgrade"));
}

TEST(ProxyHeaders, TheHostIsMaskedForServicesOnly) {
  const DataPlaneTarget target{"", "localhost:${PORT}"};
  EXPECT_EQ(to_guest(request(), target, 8080).fields.get("Host"), "localhost:8080");
  EXPECT_EQ(to_guest(request(), target, 8080).fields.get("X-Forwarded-Host"), "127.0.0.1:3000");
  EXPECT_EQ(to_guest(request(), target, envd_port).fields.get("Host"), "127.0.0.1:3000");
}

}  // namespace
}  // namespace space::control
