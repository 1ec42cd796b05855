#include "noded/unmount.h"

#include <unistd.h>

#include "base/deadline.h"
#include "noded/door.h"
#include "priv/cgroup.h"
#include "priv/folder.h"
#include "priv/pool.h"
#include "priv/slot.h"
#include "priv/vmm.h"

namespace space::noded {
namespace {

constexpr Millis end_limit{10'000};

}  // namespace

Result<void> kill_everything(const priv::Layout& layout) {
  SPACE_TRY(const auto cgroups, priv::Cgroups::find(layout.run));
  SPACE_TRY(const auto vmms, priv::names_in(layout.vmms()));
  for (const std::string& id : vmms) {
    SPACE_CHECK(priv::kill_vmm(cgroups, Gate::of_operator(id)));
    const Deadline deadline = Deadline::after(end_limit);
    while (priv::holds_processes(priv::vmm_status(layout, id).state)) {
      if (deadline.passed()) return fail(Code::deadline, "the VM of {} was killed and does not end", id);
      ::usleep(5'000);
    }
  }
  return {};
}

Result<void> release_everything(const priv::Layout& layout) {
  SPACE_TRY(const auto cgroups, priv::Cgroups::find(layout.run));
  SPACE_TRY(const auto vmms, priv::names_in(layout.vmms()));
  for (const std::string& id : vmms)
    if (priv::holds_processes(priv::vmm_status(layout, id).state))
      return fail(Code::conflict, "the VM of {} runs: stop it first", id);
  SPACE_CHECK(priv::remove_half_made_vmms(layout, cgroups));
  for (const std::string& id : vmms) SPACE_CHECK(priv::forget_vmm(layout, cgroups, Gate::of_operator(id)));
  SPACE_CHECK(priv::remove_unused_slots(layout));
  SPACE_TRY(const auto slots, priv::names_in(layout.slots()));
  for (const std::string& id : slots) SPACE_CHECK(priv::remove_slot(layout, Gate::of_operator(id)));
  cgroups.remove_instance();
  return priv::unmount_pool(layout);
}

}  // namespace space::noded
