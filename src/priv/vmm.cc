#include "priv/vmm.h"

#include "priv/folder.h"

namespace space::priv {

Result<VmmHandle> open_vmm(const Layout& layout, const std::string& id) {
  const VmmStatus status = vmm_status(layout, id);
  switch (status.state) {
    case VmmState::none:
    case VmmState::exited:
      return fail(Code::not_found, "no VMM of {} runs", id);
    case VmmState::launching:
    case VmmState::ending:
      return fail(Code::unavailable, "the VMM of {} is beginning or ending", id);
    case VmmState::running:
      break;
  }
  SPACE_TRY(Fd pidfd, open_pidfd(status.process));
  return VmmHandle{std::move(pidfd), status.process};
}

Result<VmmExit> read_vmm_exit(const Layout& layout, const std::string& id) {
  const VmmStatus status = vmm_status(layout, id);
  if (status.state == VmmState::exited) return status.exit;
  if (status.state == VmmState::ending)
    return fail(Code::unavailable, "the end of the VMM of {} is being recorded", id);
  return fail(Code::not_found, "the VMM of {} {}", id, status.state == VmmState::none ? "never ran" : "runs");
}

Result<void> forget_vmm(const Layout& layout, const Cgroups& cgroups, const std::string& id) {
  if (holds_processes(vmm_status(layout, id).state))
    return fail(Code::conflict, "the VMM of {} still runs", id);
  // Whatever it may have left behind under a supervisor that died.
  SPACE_CHECK(cgroups.kill(id));
  SPACE_CHECK(cgroups.remove(id));
  return remove_vmm_record(layout, id);
}

Result<void> remove_half_made_vmms(const Layout& layout, const Cgroups& cgroups) {
  SPACE_TRY(const auto ids, cgroups.ids());
  for (const std::string& id : ids) {
    const VmmState state = vmm_status(layout, id).state;
    if (holds_processes(state)) continue;
    SPACE_CHECK(cgroups.kill(id));
    // Without a record nobody will ever ask to forget it.
    if (state == VmmState::none) (void)cgroups.remove(id);
  }
  return {};
}

}  // namespace space::priv
