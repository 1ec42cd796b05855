// The gateway's process of bench/egress: real gates, loopback sockets in place of the world.
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "bench/egress_peers.h"
#include "netd/fake_upstream.h"
#include "netd/sandbox_gate.h"

namespace space::bench {
namespace {

using netd::SandboxGate;

constexpr const char* destination = "93.184.216.34";
constexpr std::uint16_t greet_meant = 5000, source_meant = 5001;
constexpr const char* open_policy =
    R"({"mode":"restricted","allow":["93.184.216.34"],
        "limits":{"conns":16384,"new_conns_per_s":10000}})";
constexpr const char* default_policy = R"({"mode":"restricted","allow":["93.184.216.34"]})";

Result<std::shared_ptr<const EgressMatcher>> matcher_of(const char* text) {
  SPACE_TRY(const JsonObject object, parse_json_object(text, "policy"));
  SPACE_TRY(EgressPolicy policy, parse_egress_policy(object, {}));
  return std::make_shared<const EgressMatcher>(std::move(policy));
}

struct Sandbox {
  std::shared_ptr<SandboxGate> gate;
  const char* policy;
  netd::SlotSockets sockets;
};

Task<Result<void>> open_gate(Sandbox& sandbox) {
  SPACE_CO_TRY(auto matcher, matcher_of(sandbox.policy));
  co_await sandbox.gate->set_policy(std::move(matcher), 1);
  co_return co_await sandbox.gate->attach(std::move(sandbox.sockets));
}

Task<void> open_gates(std::vector<Sandbox>& sandboxes) {
  for (Sandbox& sandbox : sandboxes) {
    const auto opened = co_await open_gate(sandbox);
    if (!opened) log::error("a gate does not open", {log::Field(opened.error())});
  }
}

Result<void> serve(GateSockets sockets, std::uint16_t greet_port, std::uint16_t source_port) {
  boost::asio::io_context loop(1);
  netd::FdBudget descriptors(1'000'000);
  netd::LoopParts parts{
      .executor = loop.get_executor(),
      .resolver = std::make_unique<netd::Resolver>(
          loop.get_executor(), std::make_unique<netd::FakeUpstream>(std::make_shared<netd::FakeZone>())),
      .descriptors = descriptors,
      .platform = std::make_shared<const PlatformDeny>()};
  const std::uint16_t down_port = port_of(sockets.down);
  parts.meant = [down_port](std::uint16_t port) {
    return std::pair(*IpAddress::parse(destination), port == down_port ? source_meant : greet_meant);
  };
  parts.route = [=](const IpAddress&, std::uint16_t port) {
    return to_sockaddr(IpAddress::v4(0x7f00'0001), port == source_meant ? source_port : greet_port);
  };
  std::vector<Sandbox> sandboxes;
  for (auto [listener, policy] : {std::pair(&sockets.up, open_policy),
                                  {&sockets.down, open_policy},
                                  {&sockets.neighbour, open_policy},
                                  {&sockets.flooded, default_policy}}) {
    netd::SlotSockets slot;
    slot.tcp4 = std::move(*listener);
    SPACE_TRY(slot.tcp6, loopback_socket(SOCK_STREAM));
    SPACE_TRY(slot.udp4, loopback_socket(SOCK_DGRAM));
    SPACE_TRY(slot.udp6, loopback_socket(SOCK_DGRAM));
    sandboxes.push_back(
        {SandboxGate::make(parts, fmt::format("ibench{:014}", sandboxes.size())), policy, std::move(slot)});
  }
  spawn(loop.get_executor(), "open gates", open_gates(sandboxes));
  loop.run();
  return {};
}

}  // namespace

Result<ChildProcess> start_gates(GateSockets sockets, std::uint16_t greet_port, std::uint16_t source_port) {
  return start_child([&] {
    const auto served = serve(std::move(sockets), greet_port, source_port);
    if (!served) log::error("the gates end", {log::Field(served.error())});
  });
}

}  // namespace space::bench
