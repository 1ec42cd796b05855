// A network slot: a network namespace with lo and one tap, and no way out: no other device, no route but to
// the guest. What a guest sends ends in the slot's sockets or is refused (slot_rules.h). It lives as a mount
// at <run>/noded/netns/<id>. A few spare ones lie ahead beside them; one that had a VM is never used again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "priv/layout.h"
#include "priv/permit.h"
#include "priv/slot_sockets.h"

namespace space::priv {

// Leaves the calling process inside a new namespace: call it in a process of its own. Success when the slot
// is there already. `mbit_per_s` each way, what is above it is dropped; 0 = no limit. Becomes of `spare`, the
// name of one that nobody else has, when that is not empty.
Result<void> create_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s,
                         const std::string& spare);
// Success when there is none. Devices go when the last process or descriptor in it has gone.
Result<void> remove_slot(const Layout& layout, const SandboxPermit& sandbox);
bool slot_exists(const Layout& layout, const std::string& id);  // looks only, and takes any name
// Which namespace it is, by inode: for as long as somebody holds it. not_found without a slot.
Result<std::uint64_t> slot_number(const Layout& layout, const std::string& id);
// The tap, attached: what the VM sends is read from it. Nobody else may have it open.
Result<Fd> open_tap(const Layout& layout, const SandboxPermit& sandbox);
// As open_slot_sockets; not_found without a slot.
Result<SlotSockets> open_sockets_of_slot(const Layout& layout, const SandboxPermit& sandbox);

// Puts back what is missing of rules, addresses and routes; true when anything was. `sound_rules` as
// prepare_slots told, `number` that of the namespace its VM's tap is in, 0 = there is no VM. conflict: the
// slot is another namespace than that, or one that cannot be put right.
Result<bool> repair_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s,
                         const std::string& sound_rules, std::uint64_t number);

// Makes the spare ones that are missing; leaves the calling process inside one of them.
Result<void> make_spare_slots(const Layout& layout);
std::vector<std::string> spare_slots(const Layout& layout);  // names of those that are ready
// For an instance that starts: removes what an earlier one left half made or spare, makes spare ones, and
// tells how the rules of a sound slot read. Works in a child; fails where this kernel cannot do it.
Result<std::string> prepare_slots(const Layout& layout);
// Removes what a crash left, names without a namespace, and the spare ones.
Result<void> remove_unused_slots(const Layout& layout);

}  // namespace space::priv
