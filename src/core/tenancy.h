// Tenancy: whose sandboxes may run beside each other on one node. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/start_plan.h"

namespace space {

// Under KVM there are two walls between two teams, under TCG one: the VMM's own confinement. So there a node
// is one team's at a time, unless its operator said otherwise. `live`: the teams of all that has or is
// getting a VMM. permission_denied when it may not start; the sentence says what to change.
Result<void> admit_team(std::string_view team, const std::set<std::string>& live,
                        MachineAccelerator accelerator, bool allow_tcg_multitenant);

}  // namespace space
