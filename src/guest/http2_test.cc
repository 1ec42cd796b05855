// The daemon's HTTP API over HTTP/2: the handlers are those of http_service_test.cc, the streams are not.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "guest/http_service.h"
#include "net/h2_test_client.h"
#include "net/test_loop.h"

namespace space::guest {
namespace {

namespace h2 = h2_test;
using testing::HasSubstr;

class Http2Test : public LoopTest {
 protected:
  Http2Test() : table_(executor()), state_(executor()), service_(state_, table_) {
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
    std::filesystem::create_directory(folder_ + "/etc");
    std::ofstream(folder_ + "/etc/passwd")
        << fmt::format("me:x:{}:{}::{}:/bin/sh\n", ::getuid(), ::getgid(), folder_);
    state_.users = UserDatabase(folder_ + "/etc");
    state_.default_user = "me";
    auto [ours, theirs] = make_stream_pair(executor());
    spawn(executor(), "service", service_.serve(std::move(theirs)));
    client_.emplace(std::move(ours));
    spawn(executor(), "client", client_->run());
  }
  ~Http2Test() override { std::filesystem::remove_all(folder_); }

  static Task<void> until(std::function<bool()> condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(condition());
  }
  Task<h2::Client::Stream> ask(h2::HeaderList headers, std::string body = "") {
    const auto id = client_->send(headers, body);
    co_await until([&] { return (*client_)[id].over(); });
    co_return (*client_)[id];
  }
  std::int32_t start(std::string command) {
    const auto request = to_text(
        JsonObject{{"process", JsonObject{{"cmd", "/bin/sh"}, {"args", JsonArray{"-c", std::move(command)}}}},
                   {"stdin", false}});
    return client_->send(h2::with(h2::request("POST", "/process.Process/Start"),
                                  {{"content-type", "application/connect+json"}}),
                         as_text(connect::envelope(0, request)));
  }

  std::string folder_;
  ProcessTable table_;
  GuestState state_;
  HttpService service_;
  std::optional<h2::Client> client_;
};

TEST_F(Http2Test, CommandsRunSideBySideOnOneConnection) {
  run([&]() -> Task<void> {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 30; ++i) ids.push_back(start(fmt::format("exit {}", i)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      co_await until([&] { return (*client_)[ids[i]].over(); });
      EXPECT_TRUE((*client_)[ids[i]].ended);
      EXPECT_THAT((*client_)[ids[i]].body, HasSubstr(fmt::format("exit status {}\"", i)));
    }
    EXPECT_THAT((co_await ask(h2::request("POST", "/process.Process/List"), "{}")).body,
                HasSubstr("\"processes\":[]"));
  });
}

TEST_F(Http2Test, AStreamThatIsCancelledLeavesItsProgram) {
  run([&]() -> Task<void> {
    const auto id = start("sleep 600");
    co_await until([&] { return (*client_)[id].body.contains("start"); });
    client_->reset(id);
    const auto list = co_await ask(h2::request("POST", "/process.Process/List"), "{}");
    EXPECT_THAT(list.body, HasSubstr("sleep 600"));
    const auto pid = table_.running().begin()->first;
    const auto killed =
        co_await ask(h2::request("POST", "/process.Process/SendSignal"),
                     fmt::format(R"({{"process":{{"pid":{}}},"signal":"SIGNAL_SIGKILL"}})", pid));
    EXPECT_EQ(killed.status, 200);
    co_await until([&] { return table_.running().empty(); });
  });
}

TEST_F(Http2Test, FilesUpAndDown) {
  run([&]() -> Task<void> {
    std::string content(3'000'000, 'x');
    for (std::size_t i = 0; i < content.size(); i += 1009) content[i] = static_cast<char>('a' + i % 26);
    const std::string target = "/files?path=" + folder_ + "/file";
    const auto up = co_await ask(
        h2::with(h2::request("POST", target), {{"content-type", "application/octet-stream"}}), content);
    EXPECT_EQ(up.status, 200) << up.body;
    const auto down = co_await ask(h2::request("GET", target));
    EXPECT_EQ(down.status, 200);
    EXPECT_EQ(down.fields.get("content-length"), "3000000");
    EXPECT_TRUE(down.body == content);
  });
}

TEST_F(Http2Test, EveryRequestIsAuthorisedByItself) {
  state_.access_token = SecretText("secret");
  run([&]() -> Task<void> {
    const auto list = h2::request("POST", "/process.Process/List");
    EXPECT_EQ((co_await ask(h2::with(list, {{"x-access-token", "secret"}}), "{}")).status, 200);
    EXPECT_EQ((co_await ask(list, "{}")).status, 401);
    EXPECT_EQ((co_await ask(h2::with(list, {{"x-access-token", "wrong"}}), "{}")).status, 401);
    EXPECT_EQ((co_await ask(h2::request("GET", "/health"))).status, 204);
    EXPECT_EQ((co_await ask({{":method", "CONNECT"}, {":authority", "localhost:22"}})).status, 400);
  });
}

}  // namespace
}  // namespace space::guest
