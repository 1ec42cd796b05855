// Relay: the bytes of one flow, both ways, as they are.
#pragma once

#include <cstdint>
#include <span>

#include "netd/flow_socket.h"
#include "netd/traffic.h"

namespace space::netd {

struct RelayCount {
  std::uint64_t in = 0;  // to the guest
  std::uint64_t out = 0;
};

struct RelayParts {
  FlowSocketPtr guest;
  FlowSocketPtr upstream;
  // Outlive the relay. `scratch` is the loop's: used between two waits only.
  std::span<std::byte> scratch;
  Traffic& traffic;
  RelayCount& count;
};

enum class RelayEnd : unsigned char {
  ended,   // both sides had their end
  broken,  // one reset or was closed under us, so the other was reset
  quota,   // the sandbox's traffic is used up; both reset
};

// A side that takes nothing holds the other back; an end is passed on as an end, an RST as an RST. Both
// sockets are closed when it returns.
Task<RelayEnd> relay(RelayParts parts);

}  // namespace space::netd
