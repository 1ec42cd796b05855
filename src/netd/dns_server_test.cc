#include "netd/dns_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "net/test_loop.h"
#include "netd/fake_upstream.h"

namespace space::netd {
namespace {

namespace asio = boost::asio;

struct NoObserver final : DnsObserver {
  void dns_query(const DnsDecision&) override {}
};

// A UDP socket bound to `address`, and the port it got.
Fd udp_socket(const IpAddress& address, std::uint16_t* port) {
  const SocketAddress bound = to_sockaddr(address, 0);
  Fd fd(::socket(bound.get()->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), bound.get(), bound.size), 0) << address.text();
  SocketAddress got{.storage = {}, .size = sizeof got.storage};
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&got.storage), &got.size), 0);
  *port = ntohs(reinterpret_cast<const sockaddr_in*>(&got.storage)->sin_port);
  return fd;
}

class DnsServerTest : public LoopTest {
 public:  // for the coroutines of the tests, which are functions of their own
  DnsServerTest() {
    zone->address("example.com", "93.184.216.34");
    EgressPolicy policy;
    policy.mode = EgressMode::allow_all;
    service->set_policy(std::make_shared<const EgressMatcher>(policy),
                        std::make_shared<const PlatformDeny>());
  }
  static Bytes query(std::uint16_t id) {
    return write_query(id, {.name = "example.com", .type = DnsType::a}, false);
  }
  // Asks `server`:`port` and waits for what comes back from there; "" when nothing does.
  Task<std::string> ask(IpAddress server, std::uint16_t port, Bytes question,
                        Millis patience = Millis(20'000)) {
    std::uint16_t own = 0;
    Fd fd = udp_socket(server.is_v4() ? IpAddress::v4(0) : IpAddress::v6(0, 0), &own);
    const SocketAddress to = to_sockaddr(server, port);
    // Connected: an answer from another address would not arrive.
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    asio::posix::stream_descriptor socket(executor(), fd.release());
    EXPECT_GT(::send(socket.native_handle(), question.data(), question.size(), 0), 0);
    asio::steady_timer timer(executor(), patience);
    timer.async_wait([&socket](const boost::system::error_code& error) {
      if (!error) socket.cancel();
    });
    const auto [error] = co_await socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                                    asio::as_tuple(asio::use_awaitable));
    timer.cancel();
    if (error) co_return "";
    std::array<char, 2048> buffer;
    const auto n = ::recv(socket.native_handle(), buffer.data(), buffer.size(), 0);
    co_return n < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(n));
  }
  static std::string address_of(std::string_view answer) {
    const auto message = parse_dns(as_bytes(answer));
    if (!message || message->answers.empty()) return "none";
    return address_in(message->answers[0])->text();
  }

  std::shared_ptr<FakeZone> zone = std::make_shared<FakeZone>();
  Resolver resolver{executor(), std::make_unique<FakeUpstream>(zone)};
  std::shared_ptr<DnsService> service =
      std::make_shared<DnsService>(resolver, std::make_shared<Pins>(), std::make_shared<NoObserver>());
};

TEST_F(DnsServerTest, AnswersFromTheAddressThatWasAsked) {
  std::uint16_t port4 = 0, port6 = 0;
  spawn(executor(), "udp4", serve_dns_udp(udp_socket(IpAddress::v4(0), &port4), service));
  spawn(executor(), "udp6", serve_dns_udp(udp_socket(IpAddress::v6(0, 0), &port6), service));
  run([&]() -> Task<void> {
    for (const char* server : {"127.0.0.1", "127.9.9.9"}) {
      EXPECT_EQ(address_of(co_await ask(*IpAddress::parse(server), port4, query(7))), "93.184.216.34");
    }
    EXPECT_EQ(address_of(co_await ask(IpAddress::v6(0, 1), port6, query(8))), "93.184.216.34");
  });
}

TEST_F(DnsServerTest, WhatIsNoQuestionDisturbsNobody) {
  std::uint16_t port = 0;
  spawn(executor(), "udp", serve_dns_udp(udp_socket(IpAddress::v4(0), &port), service));
  run([&]() -> Task<void> {
    const IpAddress local = *IpAddress::parse("127.0.0.1");
    EXPECT_EQ(co_await ask(local, port, Bytes(1), Millis(50)), "");
    EXPECT_EQ(co_await ask(local, port, Bytes(6000), Millis(50)), "");
    EXPECT_EQ((co_await ask(local, port, Bytes(1200))).size(), 12U);
    EXPECT_EQ(address_of(co_await ask(local, port, query(1))), "93.184.216.34");
  });
}

TEST_F(DnsServerTest, EndsWithItsCoroutine) {
  std::uint16_t port = 0;
  Fd fd = udp_socket(IpAddress::v4(0), &port);
  const int number = fd.get();
  asio::cancellation_signal stop;
  zone->hold = true;  // a question is under way when it ends
  zone->released = std::make_unique<Event>(executor());
  bool ended = false;
  asio::co_spawn(executor(), serve_dns_udp(std::move(fd), service),
                 asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr&) { ended = true; }));
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await ask(*IpAddress::parse("127.0.0.1"), port, query(1), Millis(50)), "");
    EXPECT_EQ(zone->asked.size(), 1U);
    stop.emit(asio::cancellation_type::terminal);
    while (!ended) co_await sleep_for(Millis(1));
    int type = 0;
    socklen_t size = sizeof type;
    EXPECT_NE(::getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size), 0) << "its socket is closed";
    zone->hold = false;
    zone->released->notify_all();
    co_await settle();
  });
}

Bytes framed(const Bytes& message) {
  Bytes bytes{std::byte(message.size() >> 8), std::byte(message.size() & 0xff)};
  bytes.insert(bytes.end(), message.begin(), message.end());
  return bytes;
}

TEST_F(DnsServerTest, ServesStreams) {
  run([&]() -> Task<void> {
    auto [guest, ours] = make_stream_pair(executor());
    spawn(executor(), "tcp", serve_dns_tcp(std::move(ours), service));
    Bytes both = framed(query(1));
    const Bytes second = framed(query(2));
    both.insert(both.end(), second.begin(), second.end());
    for (const std::byte byte : both) EXPECT_TRUE(co_await guest->write(std::span(&byte, 1)));
    EXPECT_TRUE(co_await guest->finish());
    const std::string answers = co_await read_text(*guest);
    const std::size_t first = 2 + (static_cast<std::size_t>(static_cast<unsigned char>(answers.at(0))) << 8 |
                                   static_cast<unsigned char>(answers.at(1)));
    EXPECT_EQ(address_of(answers.substr(2, first - 2)), "93.184.216.34");
    EXPECT_EQ(address_of(answers.substr(first + 2)), "93.184.216.34");
  });
}

TEST_F(DnsServerTest, AStreamThatIsNoDnsEnds) {
  run([&]() -> Task<void> {
    for (const std::string& start :
         {std::string("\xff\xff"), std::string("\x00\x05xxxxx", 7), std::string("\x00", 1)}) {
      auto [guest, ours] = make_stream_pair(executor());
      spawn(executor(), "tcp", serve_dns_tcp(std::move(ours), service));
      co_await write_text(*guest, start);
      if (start.size() == 1) EXPECT_TRUE(co_await guest->finish());
      EXPECT_TRUE((co_await read_text(*guest)).starts_with("error") || zone->asked.empty());
    }
    EXPECT_TRUE(zone->asked.empty());
  });
}

}  // namespace
}  // namespace space::netd
