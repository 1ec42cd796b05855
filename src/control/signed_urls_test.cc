// Signed URLs that name no sandbox, through the edge, with a fake node.
#include "control/signed_urls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::HasSubstr;

struct Created {
  std::string id;
  std::string token;
};

class SignedUrlsTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }

  Created create() {
    const Answer answer = plane.api("POST", "/v2/sandboxes", R"({"templateID":"base"})");
    return {*require_text(answer.json(), "sandboxID"), *require_text(answer.json(), "envdAccessToken")};
  }
  static std::string url(const std::string& token, std::string path,
                         FileOperation operation = FileOperation::read, std::string expiration = "") {
    const SignedFileRequest request{
        .operation = operation, .path = path, .username = "user", .signature = "", .expiration = expiration};
    std::string text = fmt::format("/files?path={}&username=user&signature={}", http::percent_encode(path),
                                   http::percent_encode(sign(request, token)));
    return expiration.empty() ? text : text + "&signature_expiration=" + expiration;
  }
  Answer ask(std::string method, std::string target, std::string body = "") {
    return plane.send(TestPlane::request(std::move(method), std::move(target), body), body);
  }
  Answer ask_from_elsewhere(std::string target) {
    http::ClientConnection connection(plane.dial(false));
    return plane.run(exchange(connection, TestPlane::request("GET", std::move(target), ""), ""));
  }

  TestPlane plane;
};

TEST_F(SignedUrlsTest, TheRightSandboxAmongAThousand) {
  std::vector<Created> all;
  for (int i = 0; i < 1000; ++i) all.push_back(create());
  for (const std::size_t i : {0U, 1U, 500U, 998U, 999U}) {
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(ask("GET", url(all[i].token, "/a b/ü")).body, all[i].id);
    EXPECT_EQ(ask("GET", url(all[i].token, "x", FileOperation::read, "4000000000")).body, all[i].id);
    EXPECT_EQ(ask("HEAD", url(all[i].token, "x")).status, 200);
  }
  const Answer wrong = ask("GET", url("no token of theirs", "x"));
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.message(), HasSubstr("invalid signature"));
  EXPECT_EQ(wrong.json().at("code").to_number<int>(), 401);
}

TEST_F(SignedUrlsTest, UploadsStream) {
  create();
  const Created sandbox = create();
  std::string body(3 * 1024 * 1024, 'x');
  const Answer answer = [&] {
    auto head = TestPlane::request("POST", url(sandbox.token, "up", FileOperation::write), body);
    http::ClientConnection connection(plane.dial());
    spawn(plane.executor(), "sender",
          [](http::ClientConnection& c, http::RequestHead h, const std::string& content) -> Task<void> {
            (void)co_await c.write_request(h);
            (void)co_await c.write_body(as_bytes(content));
            (void)co_await c.end_request();
          }(connection, std::move(head), body));
    return plane.run(read_answer(connection));
  }();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.fields.get("X-Served-By"), sandbox.id);
  EXPECT_TRUE(answer.body == body);
}

TEST_F(SignedUrlsTest, ASignatureIsForOneOperationAndPath) {
  const Created sandbox = create();
  const std::string reading = url(sandbox.token, "x");
  EXPECT_EQ(ask("GET", reading).status, 200);
  EXPECT_EQ(ask("POST", reading, "x").status, 401) << "though it is remembered";
  EXPECT_EQ(ask("GET", reading + "&signature_expiration=4000000000").status, 401);
  std::string other = reading;
  other.replace(other.find("path=x"), 6, "path=y");
  EXPECT_EQ(ask("GET", other).status, 401);
  EXPECT_EQ(ask("GET", "/files?path=x").status, 401);
  EXPECT_EQ(ask("GET", "/files?path=x&signature=v1_short").status, 401);
  auto preflight = TestPlane::request("OPTIONS", url(sandbox.token, "x", FileOperation::write), "");
  preflight.fields.add("Access-Control-Request-Method", "POST");
  EXPECT_EQ(plane.send(preflight).status, 200);
  EXPECT_EQ(ask("DELETE", reading).status, 405);
}

TEST_F(SignedUrlsTest, OfASandboxThatIsGone) {
  const Created sandbox = create();
  EXPECT_EQ(ask("GET", url(sandbox.token, "x")).status, 200);
  EXPECT_EQ(plane.api("DELETE", "/sandboxes/" + sandbox.id).status, 204);
  EXPECT_EQ(ask("GET", url(sandbox.token, "x")).status, 401);
}

TEST_F(SignedUrlsTest, OnlyFromThisMachine) {
  const Created sandbox = create();
  const Answer refused = ask_from_elsewhere(url(sandbox.token, "x"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.message(), HasSubstr("this machine only"));
  EXPECT_EQ(ask("GET", url(sandbox.token, "x")).status, 200);
}

TEST_F(SignedUrlsTest, SearchesHaveABoundThatRecovers) {
  const Created sandbox = create();
  const std::string known = url(sandbox.token, "known");
  EXPECT_EQ(ask("GET", known).status, 200);
  SignedUrls urls(plane.sandboxes(), plane.clock);
  const auto status = [&](const std::string& target) {
    const auto found = plane.run(urls.sandbox_of(TestPlane::request("GET", target, ""), true));
    return found ? 200 : found.error().status;
  };
  EXPECT_EQ(status(known), 200);
  int searches = 1;
  while (status(url("wrong", "x")) == 401 && searches < 100'000) ++searches;
  EXPECT_LT(searches, 100'000);
  EXPECT_EQ(status(url("wrong", "x")), 429);
  EXPECT_EQ(status(url(sandbox.token, "new")), 429);
  EXPECT_EQ(status(known), 200) << "a known URL needs no search";
  EXPECT_EQ(status("/files?signature=nonsense"), 401) << "nor does one that cannot fit";
  plane.clock.advance(Millis(1000));
  EXPECT_EQ(status(url(sandbox.token, "new")), 200);
  EXPECT_EQ(status(url("wrong", "x")), 401);
}

}  // namespace
}  // namespace space::control
