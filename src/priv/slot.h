// A network slot: a network namespace with lo and one tap, and no way out: no address on the tap, no
// route, no other device. It lives as a mount at <run>/noded/netns/<id>.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "priv/layout.h"
#include "priv/permit.h"

namespace space::priv {

inline constexpr const char* slot_tap = "tap0";

// Leaves the calling process inside the new namespace: call it in a process of its own. Success when the
// slot is there already. `mbit_per_s` each way, what is above it is dropped; 0 = no limit.
Result<void> create_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s);
// Success when there is none. Devices go when the last process or descriptor in it has gone.
Result<void> remove_slot(const Layout& layout, const SandboxPermit& sandbox);
bool slot_exists(const Layout& layout, const std::string& id);  // looks only, and takes any name
// The tap, attached: what the VM sends is read from it. Nobody else may have it open.
Result<Fd> open_tap(const Layout& layout, const SandboxPermit& sandbox);
// Removes what a crash left: names without a namespace.
Result<void> remove_half_made_slots(const Layout& layout);

}  // namespace space::priv
