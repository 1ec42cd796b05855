// The network of a slot beside its rules: its two devices, their addresses, the guest as a neighbour that
// nobody can move, and the way of marked packets to this host's own sockets.
#pragma once

#include "base/fd.h"

namespace space::priv {

inline constexpr const char* slot_tap = "tap0";

// All act on the network namespace the caller is in.
// Attached: what the VM sends is read from it. Makes it where there is none, gone with the descriptor.
Result<Fd> attach_tap();
// Switches of the kernel; before there is a tap.
Result<void> set_slot_switches();
// Adds what is missing, and says whether anything was. The tap is there.
Result<bool> complete_slot_network();
// conflict: something other than lo and the tap could carry a packet away, or there is no tap.
Result<void> require_no_way_out();

}  // namespace space::priv
