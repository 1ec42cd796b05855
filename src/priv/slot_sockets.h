// The sockets in which everything a guest sends ends.
#pragma once

#include <array>

#include "base/fd.h"

namespace space::priv {

// TCP on port 4000 and UDP on port 53, each for IPv4 and IPv6, in this order.
using SlotSockets = std::array<Fd, 4>;

// In the network namespace the caller is in. Non-blocking, transparent: a connection's own address is the one
// that the guest wanted, a datagram says its own (original destination and packet information), and an answer
// may leave from any. conflict while those of an earlier call are open.
Result<SlotSockets> open_slot_sockets();

}  // namespace space::priv
