#include "netd/dialer.h"

#include "netd/test_gate.h"

namespace space::netd {
namespace {

// Addresses of the internet are routed to servers of this machine; those without a server to a port that is
// closed.
class DialerTest : public LoopTest {
 protected:
  DialRules rules() {
    return {.check =
                [this](const IpAddress& to) {
                  checked.push_back(to.text());
                  return std::ranges::find(forbidden, to.text()) == forbidden.end();
                },
            .route =
                [this](const IpAddress& to, std::uint16_t) {
                  routed.push_back(to.text());
                  const auto port = ports.find(to.text());
                  return to_sockaddr(address("127.0.0.1"), port == ports.end() ? closed : port->second);
                }};
  }
  // The address that was reached, or why none was.
  Task<std::string> reach(std::vector<const char*> texts, Millis limit = Millis(20'000)) {
    std::vector<IpAddress> addresses;
    for (const char* text : texts) addresses.push_back(address(text));
    const auto dialled = co_await dial(std::move(addresses), 443, rules(), Deadline::after(limit));
    if (dialled) co_return dialled->address.text();
    constexpr const char* failures[] = {"forbidden", "refused", "unreachable", "timeout", "no descriptor"};
    co_return failures[static_cast<std::size_t>(dialled.error())];
  }
  static std::uint16_t closed_port() {
    const Fd fd = loopback_socket(AF_INET, SOCK_STREAM);
    return port_of(fd.get());
  }
  // A listener whose queue is full: connections to it stay under way.
  std::uint16_t stuck_port() {
    stuck_.push_back(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    const int listener = stuck_.back().get();
    const SocketAddress any = to_sockaddr(address("127.0.0.1"), std::uint16_t{0});
    EXPECT_EQ(::bind(listener, any.get(), any.size), 0);
    EXPECT_EQ(::listen(listener, 0), 0);
    const std::uint16_t port = port_of(listener);
    const SocketAddress full = to_sockaddr(address("127.0.0.1"), port);
    for (int i = 0; i < 4; ++i) {
      stuck_.push_back(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
      (void)::connect(stuck_.back().get(), full.get(), full.size);
    }
    return port;
  }

  std::map<std::string, std::uint16_t> ports;
  std::vector<std::string> forbidden, checked, routed;
  std::uint16_t closed = closed_port();
  TestServer server{executor(), TestServer::Kind::echo};

 private:
  std::vector<Fd> stuck_;
};

using Texts = std::vector<std::string>;

TEST_F(DialerTest, the_first_that_answers_is_taken) {
  ports = {{"45.0.0.1", server.port()}, {"45.0.0.2", server.port()}};
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await reach({"45.0.0.1", "45.0.0.2"}), "45.0.0.1");
    EXPECT_EQ(routed, (Texts{"45.0.0.1"})) << "the second is not bothered";
    EXPECT_EQ(co_await reach({"45.0.0.9", "45.0.0.2"}), "45.0.0.2") << "the first refuses";
  });
}

TEST_F(DialerTest, what_the_check_refuses_is_never_dialled) {
  ports = {{"45.0.0.1", server.port()}, {"45.0.0.2", server.port()}};
  forbidden = {"45.0.0.1"};
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await reach({"45.0.0.1", "45.0.0.2"}), "45.0.0.2");
    EXPECT_EQ(checked, (Texts{"45.0.0.1", "45.0.0.2"}));
    EXPECT_EQ(routed, (Texts{"45.0.0.2"}));
    EXPECT_EQ(co_await reach({"45.0.0.1"}), "forbidden");
    EXPECT_EQ(co_await reach({}), "forbidden");
    EXPECT_EQ(routed.size(), 1U);
    forbidden.clear();
    EXPECT_EQ(co_await reach({"45.0.0.1"}), "45.0.0.1");
  });
}

TEST_F(DialerTest, a_destination_that_refuses_says_so) {
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await reach({"45.0.0.9"}), "refused");
    EXPECT_EQ(co_await reach({"45.0.0.9", "45.0.0.8"}), "refused");
    EXPECT_EQ(routed.size(), 3U);
  });
}

TEST_F(DialerTest, one_that_does_not_answer_holds_up_no_other) {
  ports = {{"45.0.0.1", stuck_port()}, {"45.0.0.2", server.port()}};
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await reach({"45.0.0.1", "45.0.0.2"}), "45.0.0.2");
    EXPECT_EQ(routed, (Texts{"45.0.0.1", "45.0.0.2"}));
  });
}

TEST_F(DialerTest, never_more_than_two_at_a_time_and_an_end_at_the_deadline) {
  const std::uint16_t stuck = stuck_port();
  ports = {{"45.0.0.1", stuck}, {"45.0.0.2", stuck}, {"45.0.0.3", server.port()}};
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await reach({"45.0.0.1", "45.0.0.2", "45.0.0.3"}, Millis(700)), "timeout");
    EXPECT_EQ(routed, (Texts{"45.0.0.1", "45.0.0.2"}));
    EXPECT_EQ(co_await reach({"45.0.0.3"}), "45.0.0.3");
  });
}

}  // namespace
}  // namespace space::netd
