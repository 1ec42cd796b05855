// What a guest waits for the answer to a name the gateway knows, over a real UDP socket, next to the bare way
// there and back. Argument: rounds.
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "bench/report.h"
#include "netd/dns_server.h"

namespace space::bench {
namespace {

using namespace netd;

constexpr double goal_ms = 0.2;
constexpr int questions_a_second = 10'000;

struct Upstream final : DnsUpstream {
  Task<Result<DnsReply>> ask(std::string name, DnsType, Deadline) override {
    DnsReply reply{.ttl_s = max_ttl_s};
    for (std::uint32_t i = 0; i < 4; ++i) {
      reply.answers.push_back(address_record(name, IpAddress::v4(0x5db8'd820 + i), max_ttl_s));
    }
    co_return reply;
  }
};
struct Observer final : DnsObserver {
  void dns_query(const DnsDecision&) override {}
};

Fd local_socket(SocketAddress& bound, bool blocking) {
  const int kind = SOCK_DGRAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK);
  Fd fd(::socket(AF_INET, kind, 0));
  bound = to_sockaddr(*IpAddress::parse("127.0.0.1"), 0);
  if (::bind(fd.get(), bound.get(), bound.size) != 0) std::abort();
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0) std::abort();
  return fd;
}

Bytes question() {
  return write_query(7, {.name = "www.example.com", .type = DnsType::a}, true);
}

// Milliseconds there and back.
double exchange(int client, const SocketAddress& to, std::size_t least) {
  const Bytes query = question();
  std::array<std::byte, 2048> answer;
  const Stopwatch watch;
  if (::sendto(client, query.data(), query.size(), 0, to.get(), to.size) < 0) std::abort();
  const ssize_t size = ::recv(client, answer.data(), answer.size(), 0);
  const double taken = watch.ms();
  if (size < static_cast<ssize_t>(least)) std::abort();  // an echo is as long as the question
  return taken;
}

void echo(int socket) {
  std::array<std::byte, 2048> buffer;
  while (true) {
    SocketAddress from{.storage = {}, .size = sizeof from.storage};
    const ssize_t size = ::recvfrom(socket, buffer.data(), buffer.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from.storage), &from.size);
    if (size <= 1) return;
    (void)::sendto(socket, buffer.data(), static_cast<std::size_t>(size), 0, from.get(), from.size);
  }
}

// The gateway's DNS on a loop of its own thread, as in space-netd.
class Gateway {
 public:
  explicit Gateway(SocketAddress& bound) {
    EgressPolicy policy{.mode = EgressMode::restricted};
    policy.allow.push_back(*parse_egress_rule("*.example.com"));
    policy.limits.dns_qps = questions_a_second;
    service_->set_policy(std::make_shared<const EgressMatcher>(policy),
                         std::make_shared<const PlatformDeny>());
    spawn(loop_.get_executor(), "dns", serve_dns_udp(local_socket(bound, false), service_));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Gateway() {
    loop_.stop();
    thread_.join();
  }

 private:
  boost::asio::io_context loop_{1};
  Resolver resolver_{loop_.get_executor(), std::make_unique<Upstream>()};
  std::shared_ptr<DnsService> service_ =
      std::make_shared<DnsService>(resolver_, std::make_shared<Pins>(), std::make_shared<Observer>());
  std::thread thread_;
};

void measure(int rounds) {
  SocketAddress gateway_address, echo_address, own;
  const Gateway gateway(gateway_address);
  const Fd echo_socket = local_socket(echo_address, true), client = local_socket(own, true);
  std::thread echo_thread([&echo_socket] { echo(echo_socket.get()); });
  const std::size_t asked = question().size();
  Samples cached, bare;
  exchange(client.get(), gateway_address, asked + 1);  // from here on it is cached
  for (int round = 0; round < rounds; ++round) {
    cached.add(exchange(client.get(), gateway_address, asked + 1));
    bare.add(exchange(client.get(), echo_address, asked));
  }
  print("egress-dns", "cached_answer_ms", cached, Peer{"udp_echo_ms", bare}, goal_ms);
  const std::byte end{};
  (void)::sendto(client.get(), &end, 1, 0, echo_address.get(), echo_address.size);
  echo_thread.join();
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  space::log::init("egress-dns-bench");
  space::bench::print_machine("egress-dns");
  space::bench::measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 5000);
  return 0;
}
