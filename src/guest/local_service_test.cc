// Leases, the wake-up time and the service that programs of the sandbox reach them by.
#include "guest/local_service.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "base/bytes.h"

namespace space::guest {
namespace {

using namespace std::chrono_literals;

constexpr Monotonic start{1h};

TEST(Leases, EndByThemselvesAndCanBeRenewed) {
  Leases leases;
  ASSERT_TRUE(leases.put("build", 10s, start));
  ASSERT_TRUE(leases.put("test.1", 60s, start));
  EXPECT_EQ(leases.held(start + 9s).size(), 2U);
  ASSERT_TRUE(leases.put("build", 20s, start + 9s));
  EXPECT_EQ(leases.held(start + 28s).at("build"), start + 29s);
  EXPECT_FALSE(leases.held(start + 29s).contains("build"));
  leases.remove("test.1");
  leases.remove("never-held");
  EXPECT_TRUE(leases.held(start + 30s).empty());
}

TEST(Leases, AreBounded) {
  Leases leases;
  for (std::size_t i = 0; i < Leases::count_max; ++i)
    ASSERT_TRUE(leases.put("lease-" + std::to_string(i), 60s, start));
  EXPECT_EQ(leases.put("one-more", 60s, start).error().code, Code::exhausted);
  EXPECT_TRUE(leases.put("lease-3", 600s, start));        // renewing needs no room
  EXPECT_TRUE(leases.put("one-more", 60s, start + 60s));  // the others have ended
  EXPECT_EQ(leases.held(start + 60s).size(), 2U);
}

TEST(Leases, NamesAndTimesAreChecked) {
  Leases leases;
  for (const std::string name : {"", "a/b", "a b", "ä", "\n", "a%20b"})
    EXPECT_EQ(leases.put(name, 1s, start).error().code, Code::invalid_argument) << name;
  EXPECT_FALSE(leases.put(std::string(65, 'a'), 1s, start));
  EXPECT_TRUE(leases.put(std::string(64, 'a'), 1s, start));
  for (const auto time : {0s, -1s, 86'401s}) EXPECT_FALSE(leases.put("a", time, start));
  EXPECT_TRUE(leases.put("A-z_0.9", 86'400s, start));
}

TEST(WakeUp, IsOneTimeInTheFuture) {
  constexpr Wall now{1'700'000'000s};
  WakeUp wake;
  EXPECT_FALSE(wake.set(now, now));
  EXPECT_FALSE(wake.set(now + WakeUp::time_max + 1ms, now));
  EXPECT_FALSE(wake.at(now));
  EXPECT_TRUE(wake.set(now + 2h, now));
  EXPECT_TRUE(wake.set(now + 1h, now));
  EXPECT_EQ(wake.at(now), now + 1h);
  EXPECT_FALSE(wake.at(now + 1h));  // it has come
  wake.clear();
  EXPECT_FALSE(wake.at(now));
}

class LocalServiceTest : public testing::Test {
 protected:
  struct Answer {
    int status = 0;
    std::string body;
    JsonObject json() const { return parse_json_object(body, "answer").value_or(JsonObject()); }
  };

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(loop_.get_executor(), "test", detail::store_result(std::move(task), &result));
    const Deadline deadline = Deadline::after(20s);
    while (!result && !deadline.passed()) {
      loop_.restart();
      loop_.run_one_for(10ms);
    }
    return *std::move(result);
  }
  StreamPtr connect() {
    auto [ours, theirs] = make_stream_pair(loop_.get_executor());
    spawn(loop_.get_executor(), "service", service_.serve(std::move(theirs)));
    return std::move(ours);
  }
  Answer ask(std::string method, std::string target, std::string body = "") {
    return run(exchange(connect(), std::move(method), std::move(target), std::move(body)));
  }
  static Task<Answer> exchange(StreamPtr stream, std::string method, std::string target, std::string body) {
    http::ClientConnection connection(std::move(stream));
    http::RequestHead head;
    head.method = std::move(method);
    head.target = std::move(target);
    head.content_length = body.size();
    head.fields.add("Host", "localhost");
    co_await connection.write_request(head);
    co_await connection.write_body(as_bytes(body));
    co_await connection.end_request();
    const auto response = co_await connection.read_response(Deadline::after(10s));
    if (!response) co_return Answer{};
    co_return Answer{response->head.status, (co_await http::read_all(connection.body(), 65536)).value_or("")};
  }

  boost::asio::io_context loop_;
  GuestState state_{loop_.get_executor()};
  LocalService service_{state_, [] { return Result<JsonObject>(JsonObject{{"streams", 3}}); }, 200ms};
};

TEST_F(LocalServiceTest, ALeaseIsTakenListedAndGivenBack) {
  EXPECT_EQ(ask("PUT", "/leases/build", R"({"seconds":60})").status, 204);
  const auto listed = ask("GET", "/leases").json();
  const JsonArray& leases = listed.at("leases").as_array();
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].at("name"), "build");
  EXPECT_GT(leases[0].at("expires_in_ms").as_int64(), 0);
  EXPECT_LE(leases[0].at("expires_in_ms").as_int64(), 60'000);
  EXPECT_EQ(ask("DELETE", "/leases/build").status, 204);
  EXPECT_EQ(ask("DELETE", "/leases/build").status, 204);
  EXPECT_TRUE(ask("GET", "/leases").json().at("leases").as_array().empty());
}

TEST_F(LocalServiceTest, MistakesGetASentence) {
  for (const std::string body : {"", "7", "{}", R"({"seconds":0})", R"({"seconds":86401})",
                                 R"({"seconds":"60"})", R"({"seconds":1.5})"}) {
    const Answer answer = ask("PUT", "/leases/a", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_FALSE(require_text(answer.json(), "message").value_or("").empty()) << body;
  }
  EXPECT_EQ(ask("PUT", "/leases/", R"({"seconds":1})").status, 400);
  EXPECT_EQ(ask("PUT", "/leases/a%00b", R"({"seconds":1})").status, 400);
  EXPECT_EQ(ask("GET", "/nothing").status, 404);
  EXPECT_EQ(ask("POST", "/leases/a", R"({"seconds":1})").status, 404);
  EXPECT_EQ(ask("PUT", "/leases/a", std::string(8192, ' ')).status, 400);
  EXPECT_TRUE(state_.leases.held(system_clock().monotonic()).empty());
}

TEST_F(LocalServiceTest, AFullTableSaysSo) {
  for (std::size_t i = 0; i < Leases::count_max; ++i)
    ASSERT_EQ(ask("PUT", "/leases/n" + std::to_string(i), R"({"seconds":60})").status, 204);
  EXPECT_EQ(ask("PUT", "/leases/more", R"({"seconds":60})").status, 429);
}

TEST_F(LocalServiceTest, AWakeUpIsSetInBothFormsAndCleared) {
  const Answer relative = ask("PUT", "/wake", R"({"after_seconds":3600})");
  ASSERT_EQ(relative.status, 200) << relative.body;
  const auto at = parse_rfc3339(relative.json().at("at").as_string());
  EXPECT_EQ(state_.wake_up.at(system_clock().wall()), at);
  const std::string later = to_rfc3339(system_clock().wall() + 2h);
  EXPECT_EQ(require_text(ask("PUT", "/wake", R"({"at":")" + later + R"("})").json(), "at"), later);
  for (const std::string body :
       {"{}", R"({"at":"tomorrow"})", R"({"at":"2001-01-01T00:00:00Z"})", R"({"after_seconds":0})",
        R"({"after_seconds":4294967296})", R"({"at":"2031-01-01T00:00:00Z","after_seconds":5})"})
    EXPECT_EQ(ask("PUT", "/wake", body).status, 400) << body;
  EXPECT_EQ(to_rfc3339(*state_.wake_up.at(system_clock().wall())), later);
  EXPECT_EQ(ask("DELETE", "/wake").status, 204);
  EXPECT_FALSE(state_.wake_up.at(system_clock().wall()));
}

TEST_F(LocalServiceTest, ActivityIsTheHostsAnswer) {
  EXPECT_EQ(ask("GET", "/activity").json().at("streams"), 3);
}

TEST_F(LocalServiceTest, AClientThatSaysNothingOrNonsenseIsDropped) {
  const auto ends = [](StreamPtr stream, std::string text) -> Task<bool> {
    co_await stream->write(as_bytes(text));
    std::byte buffer[256];
    while (true) {
      const auto n = co_await stream->read(buffer);
      if (!n || *n == 0) co_return true;
    }
  };
  EXPECT_TRUE(run(ends(connect(), "")));
  EXPECT_TRUE(run(ends(connect(), "PUT /leases/a HTTP/1.1\r\nHost: l\r\nContent-Length: 20\r\n\r\n{")));
  EXPECT_TRUE(run(ends(connect(), std::string("\x01\x02\r\n\r\n"))));
}

}  // namespace
}  // namespace space::guest
