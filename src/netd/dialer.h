// Dialer: connects to addresses that were decided on, never to a name. The address that is checked is, byte
// for byte, the one that goes to connect(2).
#pragma once

#include <expected>
#include <functional>
#include <vector>

#include "core/ip_address.h"
#include "netd/flow_socket.h"

namespace space::netd {

enum class DialFailure : unsigned char {
  forbidden,  // no address passed the check
  refused,    // RST
  unreachable,
  timeout,
  no_descriptor,
};

struct Dialled {
  FlowSocketPtr socket;
  IpAddress address;
};

struct DialRules {
  std::function<bool(const IpAddress&)> check;  // asked once more right before each connect()
  std::function<SocketAddress(const IpAddress&, std::uint16_t)> route = to_sockaddr;
};

// The first that answers, in their order; a second one is tried beside the first when that takes long, never
// more than two at a time.
Task<std::expected<Dialled, DialFailure>> dial(std::vector<IpAddress> addresses, std::uint16_t port,
                                               DialRules rules, Deadline deadline);

}  // namespace space::netd
