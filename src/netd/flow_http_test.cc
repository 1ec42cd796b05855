// Plain HTTP through a gate: each request by itself.
#include "netd/test_gate.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;
using Kind = TestServer::Kind;

std::string get(std::string_view path, std::string_view host, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", path, host, more);
}

class FlowHttpTest : public GateTest {
 protected:
  static constexpr std::string_view policy =
      R"({"mode":"restricted","allow":["a.example.com","b.example.com",
          {"host":"api.example.com","ports":[80],"proto":"http","methods":["GET"],"paths":["/v1/*"]}]})";

  Task<void> start(std::string_view rules = policy) {
    one_ = &serve(Kind::http);
    two_ = &serve(Kind::http);
    route("45.0.2.10", 80, *one_);
    route("45.0.2.11", 80, *two_);
    zone_->address("a.example.com", "45.0.2.10");
    zone_->address("api.example.com", "45.0.2.10");
    zone_->address("b.example.com", "45.0.2.11");
    co_await open(rules);
    for (const char* name : {"a.example.com", "b.example.com", "api.example.com"}) told(name, "45.0.2.10");
  }
  Task<std::string> ask(std::string text, std::string to = "45.0.2.10") {
    const StreamPtr guest = co_await connect(to, 80);
    co_await guest->write(as_bytes(text));
    co_await guest->finish();
    co_return co_await read_text(*guest);
  }
  static std::string ok(bool last = false) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{}\r\nhello",
                       last ? "Connection: close\r\n" : "");
  }

  TestServer* one_ = nullptr;
  TestServer* two_ = nullptr;
};

TEST_F(FlowHttpTest, a_request_is_answered) {
  run([&]() -> Task<void> {
    co_await start();
    EXPECT_EQ(co_await ask(get("/x?secret", "A.Example.com.", "Connection: close\r\n")), ok(true));
    EXPECT_EQ(one_->received(), "GET /x?secret HTTP/1.1\r\nHost: a.example.com\r\n\r\n");
    const auto entries = log();
    EXPECT_EQ(entries[1].kind, LogKind::http);
    EXPECT_EQ(entries[1].host, "a.example.com");
    EXPECT_EQ(entries[1].path, "/x");
    EXPECT_EQ(entries[1].method, "GET");
  });
}

TEST_F(FlowHttpTest, every_request_of_a_connection_is_judged) {
  run([&]() -> Task<void> {
    co_await start();
    const StreamPtr guest = co_await connect("45.0.2.10", 80);
    for (int i = 0; i < 2; ++i) {
      co_await guest->write(as_bytes(get("/1", "a.example.com")));
      EXPECT_EQ(co_await read_until(*guest, "hello"), ok());
    }
    EXPECT_EQ(one_->connections(), 1U) << "kept for the next request";
    co_await guest->write(as_bytes(get("/2", "b.example.com")));
    EXPECT_EQ(co_await read_until(*guest, "hello"), ok());
    EXPECT_EQ(two_->received(), "GET /2 HTTP/1.1\r\nHost: b.example.com\r\n\r\n");
    co_await guest->write(as_bytes(get("/3", "evil.example.com")));
    const std::string denied = co_await read_text(*guest);
    EXPECT_TRUE(denied.starts_with("HTTP/1.1 403 Forbidden\r\n")) << denied;
    EXPECT_TRUE(denied.ends_with(
        R"({"error":"egress_denied","reason":"deny_mode","host":"evil.example.com","rule":"","policy_generation":1})"
        "\n"))
        << denied;
    EXPECT_FALSE(one_->received().contains("/3") || two_->received().contains("/3"));
  });
}

TEST_F(FlowHttpTest, pipelined_requests_are_judged_one_by_one) {
  run([&]() -> Task<void> {
    co_await start();
    EXPECT_EQ(co_await ask(get("/1", "a.example.com") + get("/2", "a.example.com", "Connection: close\r\n")),
              ok() + ok(true));
    const std::string mixed =
        co_await ask(get("/3", "a.example.com") + get("/4", "evil.example.com") + get("/5", "a.example.com"));
    EXPECT_TRUE(mixed.starts_with(ok() + "HTTP/1.1 403 "));
    EXPECT_TRUE(one_->received().contains("/3"));
    EXPECT_FALSE(one_->received().contains("/4") || one_->received().contains("/5"));
  });
}

TEST_F(FlowHttpTest, methods_and_paths_are_part_of_a_rule) {
  run([&]() -> Task<void> {
    co_await start();
    const auto status = [&](std::string request) -> Task<std::string> {
      co_return (co_await ask(request)).substr(9, 3);
    };
    EXPECT_EQ(co_await status(get("/v1/x", "api.example.com", "Connection: close\r\n")), "200");
    EXPECT_EQ(co_await status(get("/v2/x", "api.example.com")), "403");
    EXPECT_EQ(co_await status(get("/v1/../v2", "api.example.com")), "400");
    EXPECT_EQ(co_await status("DELETE /v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n"), "403");
    EXPECT_GE(times(EgressReason::deny_method), 1U);
  });
}

TEST_F(FlowHttpTest, what_is_no_plain_request_is_refused) {
  run([&]() -> Task<void> {
    co_await start();
    struct Case {
      std::string text;
      std::string status;
    };
    const std::vector<Case> cases = {
        {"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n", "403"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "403"},
        {"GET http://b.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: a.example.com\r\nHost: a.example.com\r\n\r\n", "400"},
        {"GET / HTTP/1.1\nHost: a.example.com\n\n", "400"},
        {"GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n", "400"},
        {"\x16\x03\x01 what is this\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nX: " + std::string(70'000, 'x'), "400"},
    };
    for (const Case& refused : cases) {
      const std::string answer = co_await ask(refused.text);
      EXPECT_EQ(answer.substr(9, 3), refused.status) << refused.text.substr(0, 100) << "\n" << answer;
      EXPECT_TRUE(answer.contains("Connection: close\r\n"));
    }
    EXPECT_EQ(one_->connections() + two_->connections(), 0U);
    EXPECT_EQ(co_await ask(get("/", "a.example.com", "Connection: close\r\n")), ok(true));
  });
}

TEST_F(FlowHttpTest, bodies_pass_in_both_framings) {
  run([&]() -> Task<void> {
    co_await start();
    EXPECT_EQ(co_await ask("POST /l HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 4\r\nConnection: "
                           "close\r\n\r\nbody"),
              ok(true));
    EXPECT_EQ(
        co_await ask("POST /c HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\nConnection: "
                     "close\r\n\r\n2;x=y\r\nbo\r\n2\r\ndy\r\n0\r\nTrailer: t\r\n\r\n"),
        ok(true));
    EXPECT_TRUE(one_->received().contains("Content-Length: 4\r\n\r\nbody"));
    EXPECT_TRUE(one_->received().contains("Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n") ||
                one_->received().contains("2\r\nbo\r\n"))
        << one_->received();
    EXPECT_FALSE(one_->received().contains("x=y") || one_->received().contains("Trailer"));
  });
}

// What follows a body that breaks the rules reaches nobody as a request.
TEST_F(FlowHttpTest, a_broken_body_ends_the_connection) {
  run([&]() -> Task<void> {
    co_await start();
    (void)co_await ask(
        "POST /c HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
        "fffffffffffffffff\r\n" +
        get("/smuggled", "a.example.com"));
    (void)co_await ask(
        "POST /c HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nbodyGET /smuggled HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
    EXPECT_FALSE(one_->received().contains("smuggled")) << one_->received();
    EXPECT_TRUE(one_->received().contains("POST /c"));
  });
}

TEST_F(FlowHttpTest, a_websocket_is_opaque_after_the_servers_101) {
  run([&]() -> Task<void> {
    TestServer& socket =
        serve(Kind::echo,
              "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              "Sec-WebSocket-Accept: k\r\n\r\nfirst ");
    co_await start();
    route("45.0.2.10", 80, socket);
    const StreamPtr guest = co_await connect("45.0.2.10", 80);
    const std::string upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n";
    co_await guest->write(as_bytes(get("/s", "a.example.com", upgrade) + get("/x", "evil.example.com")));
    const std::string all = co_await read_until(*guest, "Host: evil.example.com\r\n\r\n");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 101 Switching Protocols\r\n")) << all;
    EXPECT_TRUE(all.contains("first "));
    co_await guest->finish();
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
  });
}

TEST_F(FlowHttpTest, without_a_101_it_stays_http) {
  run([&]() -> Task<void> {
    co_await start();
    const std::string upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    const std::string answers =
        co_await ask(get("/s", "a.example.com", upgrade) + get("/x", "evil.example.com"));
    EXPECT_TRUE(answers.starts_with(ok() + "HTTP/1.1 403 ")) << answers;
    TestServer& eager = serve(Kind::silent, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
    route("45.0.2.10", 80, eager);
    EXPECT_TRUE((co_await ask(get("/", "a.example.com"))).starts_with("error: ")) << "nobody asked for it";
  });
}

TEST_F(FlowHttpTest, a_guest_that_goes_does_not_keep_a_request_waiting) {
  run([&]() -> Task<void> {
    TestServer& silent = serve(Kind::silent);
    co_await start();
    route("45.0.2.10", 80, silent);
    const StreamPtr guest = co_await connect("45.0.2.10", 80);
    co_await guest->write(as_bytes(get("/", "a.example.com")));
    EXPECT_TRUE(co_await eventually([&] { return silent.received().contains("GET / "); }));
    guest->reset();
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0 && silent.idle(); }));
  });
}

TEST_F(FlowHttpTest, an_idle_connection_is_cut_with_its_policy) {
  run([&]() -> Task<void> {
    co_await start();
    const StreamPtr guest = co_await connect("45.0.2.10", 80);
    co_await guest->write(as_bytes(get("/", "a.example.com")));
    EXPECT_EQ(co_await read_until(*guest, "hello"), ok());
    EXPECT_EQ(co_await gate_->set_policy(matcher_of(R"({"mode":"restricted","allow":["b.example.com"]})"), 2),
              1U);
    EXPECT_TRUE((co_await read_text(*guest)).starts_with("error: "));
  });
}

TEST_F(FlowHttpTest, servers_that_fail_are_said_to) {
  run([&]() -> Task<void> {
    co_await start(R"({"mode":"restricted","allow":["*.example.com"]})");
    told("down.example.com", "45.0.2.10");
    told("none.example.com", "45.0.2.10");
    zone_->address("down.example.com", "45.0.2.12");
    EXPECT_EQ((co_await ask(get("/", "down.example.com"))).substr(9, 3), "502");
    EXPECT_EQ(last_reason(), "unreachable");
    EXPECT_EQ((co_await ask(get("/", "none.example.com"))).substr(9, 3), "502");
    EXPECT_EQ(last_reason(), "unresolved");
    TestServer& rude = serve(Kind::resets);
    route("45.0.2.10", 80, rude);
    EXPECT_EQ((co_await ask(get("/", "a.example.com"))).substr(9, 3), "502");
    TestServer& half = serve(Kind::resets, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    route("45.0.2.10", 80, half);
    const std::string answer = co_await ask(get("/", "a.example.com"));
    EXPECT_TRUE(answer.starts_with("error: ") || answer.substr(9, 3) == "502") << answer;
  });
}

TEST_F(FlowHttpTest, where_no_rule_is_about_names_bytes_just_pass) {
  run([&]() -> Task<void> {
    TestServer& echo = serve(Kind::echo, "server first ");
    co_await start(R"({"mode":"allow_all"})");
    route("45.0.2.10", 80, echo);
    EXPECT_EQ(co_await ask("not HTTP at all"), "server first not HTTP at all");
  });
}

}  // namespace
}  // namespace space::netd
