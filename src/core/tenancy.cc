#include "core/tenancy.h"

#include <algorithm>

namespace space {

Result<void> admit_team(std::string_view team, const std::set<std::string>& live,
                        MachineAccelerator accelerator, bool allow_tcg_multitenant) {
  if (accelerator == MachineAccelerator::kvm || allow_tcg_multitenant) return {};
  if (std::ranges::all_of(live, [&](const std::string& other) { return other == team; })) return {};
  return fail(Code::permission_denied,
              "another team's sandboxes run on this node, which has no hardware isolation (TCG): the jail "
              "would be the only wall between the teams. Wait until they are gone, use a node with KVM, or "
              "set allow_tcg_multitenant = true in space.toml");
}

}  // namespace space
