// The resolver and, over real sockets, what c-ares does for it.
#include "netd/resolver.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <set>

#include "net/test_loop.h"
#include "netd/ares_upstream.h"
#include "netd/dns_answer.h"
#include "netd/fake_upstream.h"

namespace space::netd {
namespace {

namespace asio = boost::asio;
using Answers = std::vector<Bytes>;

// A resolver on a port of 127.0.0.1, over UDP and TCP.
class FakeResolver {
 public:
  struct Question {
    DnsMessage message;
    bool tcp = false;
    std::uint16_t from_port = 0;
  };
  using Handler = std::function<std::vector<Bytes>(const Question&)>;

  FakeResolver(const Executor& executor, Handler handler) : handler_(std::move(handler)), udp_(executor) {
    // A port that is free for both.
    for (int i = 0; i < 100 && !tcp_; ++i) {
      boost::system::error_code ignored;
      udp_.close(ignored);
      udp_.assign(open_udp());
      if (auto listener = listen_tcp(executor, "127.0.0.1", port_)) tcp_ = std::move(*listener);
    }
    EXPECT_TRUE(tcp_);
    spawn(executor, "fake udp", serve_udp(this));
    spawn(executor, "fake tcp", serve_tcp(this));
  }
  ResolverEndpoint endpoint() const { return {.address = *IpAddress::parse("127.0.0.1"), .port = port_}; }

  std::vector<Question> asked;

 private:
  int open_udp() {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    return fd;
  }
  std::vector<Bytes> handle(std::span<const std::byte> bytes, bool tcp, std::uint16_t from_port) {
    const auto message = parse_dns(bytes);
    EXPECT_TRUE(message);
    if (!message) return {};
    asked.push_back({.message = *message, .tcp = tcp, .from_port = from_port});
    return handler_(asked.back());
  }
  static Task<void> serve_udp(FakeResolver* self) {
    while (true) {
      co_await self->udp_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
      std::array<std::byte, 4096> buffer;
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const int fd = self->udp_.native_handle();
      const auto n =
          ::recvfrom(fd, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (n < 0) continue;
      for (const Bytes& answer :
           self->handle(std::span(buffer).first(static_cast<std::size_t>(n)), false, ntohs(from.sin_port))) {
        ::sendto(fd, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
      }
    }
  }
  static Task<void> serve_tcp(FakeResolver* self) {
    while (true) {
      auto stream = co_await self->tcp_->accept();
      if (!stream) co_return;
      std::array<std::byte, 4096> buffer;
      std::size_t have = 0;
      while (have < 2 || have < 2 + (std::to_integer<std::size_t>(buffer[0]) << 8 |
                                     std::to_integer<std::size_t>(buffer[1]))) {
        const auto n = co_await (*stream)->read(std::span(buffer).subspan(have));
        if (!n || *n == 0) co_return;
        have += *n;
      }
      for (const Bytes& answer : self->handle(std::span(buffer).subspan(2, have - 2), true, 0)) {
        Bytes framed{std::byte(answer.size() >> 8), std::byte(answer.size() & 0xff)};
        framed.insert(framed.end(), answer.begin(), answer.end());
        (void)co_await (*stream)->write(framed);
      }
    }
  }

  Handler handler_;
  asio::posix::stream_descriptor udp_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Listener> tcp_;
};

Bytes good(const FakeResolver::Question& question, std::size_t addresses = 1) {
  DnsAnswer answer = answer_to(question.message);
  for (std::size_t i = 0; i < addresses; ++i) {
    answer.records.push_back(address_record(question.message.question.name,
                                            IpAddress::v4(0x01020300 + static_cast<std::uint32_t>(i)), 60));
  }
  return write_answer(answer, 65535);
}
Bytes failing(const FakeResolver::Question& question, DnsRcode rcode, bool with_edns = true) {
  DnsAnswer answer = answer_to(question.message);
  answer.rcode = rcode;
  answer.with_edns = with_edns;
  return write_answer(answer, 512);
}

class AresTest : public LoopTest {
 protected:
  Task<Result<DnsReply>> ask(std::vector<ResolverEndpoint> resolvers, Millis limit = Millis(20'000)) {
    upstream_ = make_ares_upstream(executor(), std::move(resolvers));
    return upstream_->ask("www.some-example.com", DnsType::a, Deadline::after(limit));
  }
  static std::size_t count(const Result<DnsReply>& reply) {
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? reply->answers.size() : 0;
  }

 private:
  std::unique_ptr<DnsUpstream> upstream_;
};

TEST_F(AresTest, EachQuestionHasItsOwnIdPortAndCase) {
  FakeResolver server(executor(), [](const auto& question) { return Answers{good(question)}; });
  run([&]() -> Task<void> {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(count(co_await ask({server.endpoint()})), 1U);
  });
  std::set<std::uint16_t> ids, ports;
  std::set<std::string> names;
  for (const auto& question : server.asked) {
    EXPECT_FALSE(question.tcp);
    EXPECT_TRUE(question.message.recursion_desired);
    EXPECT_EQ(question.message.edns->udp_size, 1232);
    EXPECT_EQ(dns_lower(question.message.question.name), "www.some-example.com");
    ids.insert(question.message.id);
    ports.insert(question.from_port);
    names.insert(question.message.question.name);
  }
  EXPECT_GE(ids.size(), 6U);
  EXPECT_GE(ports.size(), 6U);
  EXPECT_GE(names.size(), 6U);
}

TEST_F(AresTest, WhatDoesNotFitComesOverTcp) {
  FakeResolver server(executor(), [](const auto& question) {
    if (question.tcp) return Answers{good(question, 100)};
    DnsAnswer answer = answer_to(question.message);
    answer.records.assign(100, address_record("a", IpAddress::v4(1), 60));
    return Answers{write_answer(answer, 512)};
  });
  run([&]() -> Task<void> { EXPECT_EQ(count(co_await ask({server.endpoint()})), 100U); });
  EXPECT_TRUE(server.asked.back().tcp);
}

TEST_F(AresTest, AnswersAreBounded) {
  FakeResolver server(executor(), [](const auto& question) {
    if (!question.tcp) {
      DnsAnswer truncated = answer_to(question.message);
      truncated.records.assign(100, address_record("a", IpAddress::v4(1), 60));
      return Answers{write_answer(truncated, 512)};
    }
    DnsAnswer answer = answer_to(question.message);
    answer.records.push_back(
        {.name = question.message.question.name, .type = DnsType::txt, .data = Bytes(5000)});
    return Answers{write_answer(answer, 65535)};
  });
  run([&]() -> Task<void> {
    const auto reply = co_await ask({server.endpoint()});
    EXPECT_FALSE(reply);
    if (!reply) EXPECT_EQ(reply.error().code, Code::unavailable);
  });
}

TEST_F(AresTest, ForgedAnswersAreNotTaken) {
  FakeResolver server(executor(), [](const auto& question) {
    auto wrong_id = question, wrong_name = question;
    ++wrong_id.message.id;
    wrong_name.message.question.name = "www.evil-example.com";
    return Answers{good(wrong_id, 5), good(wrong_name, 6), good(question, 1)};
  });
  run([&]() -> Task<void> { EXPECT_EQ(count(co_await ask({server.endpoint()})), 1U); });
}

TEST_F(AresTest, AnAnswerInOtherCaseIsAskedForOverTcp) {
  FakeResolver server(executor(), [](const auto& question) {
    auto lower = question;
    lower.message.question.name = dns_lower(question.message.question.name);
    return Answers{good(lower, question.tcp ? 1 : 7)};
  });
  run([&]() -> Task<void> { EXPECT_EQ(count(co_await ask({server.endpoint()})), 1U); });
  EXPECT_TRUE(server.asked.back().tcp);
}

TEST_F(AresTest, AResolverWithoutEdnsIsAskedWithoutIt) {
  FakeResolver server(executor(), [](const auto& question) {
    const bool old = question.message.edns.has_value();
    return Answers{old ? failing(question, DnsRcode::format_error, false) : good(question)};
  });
  run([&]() -> Task<void> { EXPECT_EQ(count(co_await ask({server.endpoint()})), 1U); });
  EXPECT_FALSE(server.asked.back().message.edns);
}

TEST_F(AresTest, NamesThatAreNotThereAreAnswersAndFailuresAreNot) {
  DnsRcode rcode = DnsRcode::nx_domain;
  FakeResolver server(executor(), [&](const auto& question) { return Answers{failing(question, rcode)}; });
  run([&]() -> Task<void> {
    const auto missing = co_await ask({server.endpoint()});
    EXPECT_TRUE(missing && missing->rcode == DnsRcode::nx_domain);
    for (const DnsRcode failure : {DnsRcode::server_failure, DnsRcode::refused}) {
      rcode = failure;
      const auto failed = co_await ask({server.endpoint()});
      EXPECT_FALSE(failed);
      if (!failed) EXPECT_EQ(failed.error().code, Code::unavailable);
    }
    const auto nobody = co_await ask({});
    EXPECT_FALSE(nobody);
    if (!nobody) EXPECT_EQ(nobody.error().code, Code::unavailable);
  });
}

TEST_F(AresTest, TheNextResolverIsAskedWhenOneIsGone) {
  FakeResolver server(executor(), [](const auto& question) { return Answers{good(question)}; });
  std::uint16_t dead = 0;
  {
    auto listener = listen_tcp(executor(), "127.0.0.1", 0);
    dead = (*listener)->port();
  }
  run([&]() -> Task<void> {
    EXPECT_EQ(
        count(co_await ask({{.address = *IpAddress::parse("127.0.0.1"), .port = dead}, server.endpoint()})),
        1U);
    const auto failed = co_await ask({{.address = *IpAddress::parse("127.0.0.1"), .port = dead}});
    EXPECT_FALSE(failed);
  });
}

TEST_F(AresTest, SilenceEndsAtTheDeadline) {
  FakeResolver server(executor(), [](const auto&) { return std::vector<Bytes>(); });
  run([&]() -> Task<void> {
    const auto reply = co_await ask({server.endpoint()}, Millis(200));
    EXPECT_FALSE(reply);
    if (!reply) EXPECT_EQ(reply.error().code, Code::deadline);
  });
  EXPECT_EQ(server.asked.size(), 1U);
}

Task<void> ask_and_forget(std::shared_ptr<DnsUpstream> upstream) {
  (void)co_await upstream->ask("example.com", DnsType::a, Deadline::after(Millis(20'000)));
}

TEST_F(AresTest, ALoopMayEndWhileItAsks) {
  FakeResolver server(executor(), [](const auto&) { return std::vector<Bytes>(); });
  const std::shared_ptr<DnsUpstream> upstream = make_ares_upstream(executor(), {server.endpoint()});
  spawn(executor(), "ask", ask_and_forget(upstream));
  run([&]() -> Task<void> {
    while (server.asked.empty()) co_await sleep_for(Millis(1));
  });
}

class ResolverTest : public LoopTest {
 protected:
  FakeClock clock;
  std::shared_ptr<FakeZone> zone = std::make_shared<FakeZone>();
  Resolver resolver{executor(), std::make_unique<FakeUpstream>(zone), clock};
};

Task<void> look_up(Resolver* resolver, int* answered) {
  const auto reply = co_await resolver->query("example.com", DnsType::a, Deadline::after(Millis(20'000)));
  EXPECT_TRUE(reply);
  ++*answered;
}

TEST_F(ResolverTest, AsksOnceForAllWhoWaitAndThenFromItsCache) {
  zone->address("example.com", "1.2.3.4");
  zone->hold = true;
  zone->released = std::make_unique<Event>(executor());
  int answered = 0;
  run([&]() -> Task<void> {
    for (int i = 0; i < 5; ++i) spawn(executor(), "look up", look_up(&resolver, &answered));
    co_await settle();
    EXPECT_EQ(zone->asked.size(), 1U);
    const auto impatient = co_await resolver.query("example.com", DnsType::a, Deadline::after(Millis(1)));
    EXPECT_EQ(impatient.error().code, Code::deadline);
    zone->hold = false;
    zone->released->notify_all();
    co_await settle();
    EXPECT_EQ(answered, 5);
    co_await look_up(&resolver, &answered);
    EXPECT_EQ(zone->asked.size(), 1U);
    clock.advance(std::chrono::seconds(61));
    co_await look_up(&resolver, &answered);
    EXPECT_EQ(zone->asked.size(), 2U);
  });
}

TEST_F(ResolverTest, AddressesAreOfBothFamilies) {
  zone->address("both.example", "2606::1");
  zone->address("both.example", "1.2.3.4");
  zone->address("six.example", "2606::2");
  zone->alias("alias.example", "end.example", DnsType::a);
  zone->address("alias.example", "5.6.7.8", "end.example");
  zone->failures["down.example"] = Error{Code::unavailable, "down"};
  run([&]() -> Task<void> {
    const auto both = co_await resolver.addresses("both.example", soon());
    EXPECT_EQ(both, (std::vector{*IpAddress::parse("1.2.3.4"), *IpAddress::parse("2606::1")}));
    EXPECT_EQ(co_await resolver.addresses("six.example", soon()), std::vector{*IpAddress::parse("2606::2")});
    EXPECT_EQ(co_await resolver.addresses("alias.example", soon()),
              std::vector{*IpAddress::parse("5.6.7.8")});
    EXPECT_EQ((co_await resolver.addresses("none.example", soon())).error().code, Code::not_found);
    EXPECT_EQ((co_await resolver.addresses("down.example", soon())).error().code, Code::unavailable);
  });
}

TEST_F(ResolverTest, WhatIsUnderWayIsBounded) {
  zone->hold = true;
  zone->released = std::make_unique<Event>(executor());
  const auto one = [](Resolver* asked, int number, int* refused) -> Task<void> {
    const auto reply = co_await asked->query("n" + std::to_string(number), DnsType::a, soon());
    if (!reply && reply.error().code == Code::exhausted) ++*refused;
  };
  int refused = 0;
  run([&]() -> Task<void> {
    for (int i = 0; i < 600; ++i) spawn(executor(), "look up", one(&resolver, i, &refused));
    co_await settle();
    EXPECT_EQ(refused, 600 - static_cast<int>(Resolver::max_under_way));
    zone->hold = false;
    zone->released->notify_all();
    co_await settle();
    EXPECT_EQ((co_await resolver.query("n599", DnsType::a, soon()))->get()->rcode, DnsRcode::nx_domain);
  });
}

std::string endpoint(std::string_view text) {
  const auto parsed = parse_resolver_endpoint(text);
  return parsed ? to_text(parsed->address, parsed->port) : "refused";
}

TEST(ResolverEndpoint, IsAnAddressAndPerhapsAPort) {
  EXPECT_EQ(endpoint("1.1.1.1"), "1.1.1.1:53");
  EXPECT_EQ(endpoint("1.1.1.1:5353"), "1.1.1.1:5353");
  EXPECT_EQ(endpoint("2606:4700::1111"), "[2606:4700::1111]:53");
  EXPECT_EQ(endpoint("[2606:4700::1111]:5353"), "[2606:4700::1111]:5353");
  for (const char* none : {"", "dns.example", "1.1.1", "1.1.1.1:0", "1.1.1.1:x", "[::1"}) {
    EXPECT_EQ(endpoint(none), "refused") << none;
  }
}

TEST(ResolvConf, NamesItsResolvers) {
  const auto found = resolvers_of(
      "# nameserver 9.9.9.9\nsearch example.com\nnameserver 1.1.1.1\nnameserver\t::1 # two\n"
      "nameserver fe80::1%eth0\nnameservers 2.2.2.2\nnameserver\nnameserver 8.8.8.8");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].address.text(), "::1");
  EXPECT_EQ(found[2].address.text(), "8.8.8.8");
}

}  // namespace
}  // namespace space::netd
