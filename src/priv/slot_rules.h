// What the kernel does with each packet of a slot, as nftables text: the same in every slot, and nothing of a
// policy in it. All TCP and every question for a name end in the sockets of slot_sockets.h, whatever address
// they were sent to; the rest is refused at once.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace space::priv {

// Pure: all tables of a slot, in place of whatever there was. `mbit_per_s` as in create_slot.
std::string slot_rules(std::uint64_t mbit_per_s);

// Of the network namespace the caller is in, in one transaction.
Result<void> apply_slot_rules(std::uint64_t mbit_per_s);
// As the kernel has them, without the limits of the tap; the same text for every slot that is sound.
struct ListedRules {
  std::string text;
  bool limited;  // the tap is, both ways
};
Result<ListedRules> list_slot_rules();
// Pure: takes the limits out of a listing of everything.
ListedRules without_limits(std::string listing);

}  // namespace space::priv
