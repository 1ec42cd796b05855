// For tests: a sandbox's gate on loopback sockets. The guest is a client of its listener, the internet are
// servers on this machine to which addresses outside the deny set are routed.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "net/test_loop.h"
#include "netd/fake_upstream.h"
#include "netd/sandbox_gate.h"

namespace space::netd {

inline IpAddress address(std::string_view text) {
  const auto parsed = IpAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress());
}

inline std::shared_ptr<const EgressMatcher> matcher_of(std::string_view policy) {
  const auto json = parse_json_object(policy, "policy");
  EXPECT_TRUE(json) << json.error().message;
  auto parsed = parse_egress_policy(*json, {.may_internal = true, .force = true});
  EXPECT_TRUE(parsed) << parsed.error().message << " in " << policy;
  return std::make_shared<const EgressMatcher>(parsed ? *std::move(parsed) : EgressPolicy{});
}

// A socket of the loopback device; `port` of a listener or of UDP is any.
inline Fd loopback_socket(int family, int type) {
  Fd fd(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress any =
      to_sockaddr(family == AF_INET ? address("127.0.0.1") : address("::1"), std::uint16_t{0});
  EXPECT_EQ(::bind(fd.get(), any.get(), any.size), 0);
  if (type == SOCK_STREAM) {
    EXPECT_EQ(::listen(fd.get(), 256), 0);
  }
  return fd;
}

inline std::uint16_t port_of(int fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&local)->sin_port);
}

inline SlotSockets loopback_slot() {
  return {loopback_socket(AF_INET, SOCK_STREAM), loopback_socket(AF_INET6, SOCK_STREAM),
          loopback_socket(AF_INET, SOCK_DGRAM), loopback_socket(AF_INET6, SOCK_DGRAM)};
}

// A server of the internet: says `greeting`, then does as its kind.
class TestServer {
 public:
  enum class Kind { echo, http, silent /* and without an end of its own */, resets };
  TestServer(const Executor& executor, Kind kind, std::string greeting = "")
      : kind_(kind), greeting_(std::move(greeting)), listener_(*listen_tcp(executor, "127.0.0.1", 0)) {
    spawn(executor, "test server", serve(executor));
  }
  std::uint16_t port() const { return listener_->port(); }
  unsigned connections() const { return connections_; }
  const std::string& received() const { return received_; }
  unsigned ended() const { return ended_; }  // connections whose end or break was seen
  bool idle() const { return ended_ == connections_; }
  void close() {
    closing_ = true;
    listener_->close();
  }

 private:
  Task<void> serve(Executor executor) {
    while (true) {
      auto stream = co_await listener_->accept();
      if (!stream) co_return;
      ++connections_;
      spawn(executor, "test connection", one(*std::move(stream)));
    }
  }
  Task<void> one(StreamPtr stream) {
    if (!greeting_.empty()) co_await stream->write(as_bytes(greeting_));
    if (kind_ == Kind::resets) {
      ++ended_;
      co_return stream->reset();
    }
    std::array<std::byte, 4096> buffer;
    std::string pending;
    while (true) {
      const auto n = co_await stream->read(buffer);
      if (!n || (*n == 0 && kind_ != Kind::silent)) break;
      if (*n == 0) {
        while (!closing_) co_await sleep_for(Millis(1));
        break;
      }
      const auto text = as_text(std::span(buffer).first(*n));
      received_ += text;
      if (kind_ == Kind::echo) co_await stream->write(std::span(buffer).first(*n));
      if (kind_ != Kind::http) continue;
      pending += text;
      while (pending.contains("\r\n\r\n")) {
        pending.erase(0, pending.find("\r\n\r\n") + 4);
        co_await stream->write(as_bytes(answer));
      }
    }
    ++ended_;
    co_await stream->finish();
  }
  static constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

  Kind kind_;
  std::string greeting_;
  std::unique_ptr<Listener> listener_;
  unsigned connections_ = 0;
  unsigned ended_ = 0;
  bool closing_ = false;
  std::string received_;
};

class GateTest : public LoopTest {
 protected:
  GateTest() {
    auto upstream = std::make_unique<FakeUpstream>(zone_);
    loop_parts_ = std::make_unique<LoopParts>(
        LoopParts{.executor = executor(),
                  .resolver = std::make_unique<Resolver>(executor(), std::move(upstream)),
                  .descriptors = descriptors_,
                  .platform = std::make_shared<const PlatformDeny>()});
    loop_parts_->meant = [this](std::uint16_t) { return meant_; };
    loop_parts_->route = [this](const IpAddress& to, std::uint16_t port) {
      dialled_.push_back(space::to_text(to, port));
      const auto found = routes_.find(dialled_.back());
      return to_sockaddr(address("127.0.0.1"), found == routes_.end() ? closed_port() : found->second);
    };
    gate_ = SandboxGate::make(*loop_parts_, "i0123456789abcdefghi");
  }

  void TearDown() override {
    run([this]() -> Task<void> {
      co_await gate_->detach();
      for (TestServer& server : servers_) server.close();
      EXPECT_TRUE(co_await eventually([&] {
        return std::ranges::all_of(servers_, [](const TestServer& server) { return server.idle(); });
      }));
      co_await settle();
    });
  }

  // Lives as long as the test.
  TestServer& serve(TestServer::Kind kind, std::string greeting = "") {
    return servers_.emplace_back(executor(), kind, std::move(greeting));
  }
  // Nobody listens there.
  static std::uint16_t closed_port() { return port_of(loopback_socket(AF_INET, SOCK_STREAM).get()); }

  Task<void> open(std::string_view policy, std::uint64_t generation = 1) {
    co_await gate_->set_policy(matcher_of(policy), generation);
    SlotSockets slot = loopback_slot();
    guest_port_ = port_of(slot.tcp4.get());
    EXPECT_TRUE(co_await gate_->attach(std::move(slot)));
  }
  // A connection of the guest to `to`; null when it was reset as soon as it was there.
  Task<StreamPtr> connect(std::string_view to, std::uint16_t port) {
    meant_ = {address(to), port};
    const auto seen = [this] { return gate_->counters().flows_total + gate_->counters().denied_total; };
    const std::uint64_t before = seen();
    auto stream = co_await connect_tcp("127.0.0.1", guest_port_, soon());
    // The gate looks where it was meant to go when it accepts it.
    EXPECT_TRUE(co_await eventually([&] { return seen() > before; }));
    co_return stream ? *std::move(stream) : nullptr;
  }
  void told(std::string_view name, std::string_view to) { gate_->pins()->add(address(to), name); }
  void route(std::string_view to, std::uint16_t port, const TestServer& server) {
    routes_[space::to_text(address(to), port)] = server.port();
  }
  template <class F>
  static Task<bool> eventually(F condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) co_await sleep_for(Millis(1));
    co_return condition();
  }
  std::vector<LogEntry> log() { return gate_->log().read(0, 1000).entries; }
  std::uint64_t times(EgressReason reason) {
    return gate_->counters().by_reason[static_cast<std::size_t>(reason)];
  }
  std::string last_reason() {
    const auto entries = log();
    return entries.empty() ? "" : std::string(to_string(entries.back().reason));
  }

  std::shared_ptr<FakeZone> zone_ = std::make_shared<FakeZone>();
  FdBudget descriptors_{10'000};
  std::unique_ptr<LoopParts> loop_parts_;
  std::shared_ptr<SandboxGate> gate_;
  std::deque<TestServer> servers_;
  std::uint16_t guest_port_ = 0;
  std::optional<std::pair<IpAddress, std::uint16_t>> meant_;
  std::map<std::string, std::uint16_t> routes_;
  std::vector<std::string> dialled_;
};

}  // namespace space::netd
