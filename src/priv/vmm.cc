#include "priv/vmm.h"

#include <fcntl.h>

#include "priv/folder.h"

namespace space::priv {

Result<VmmHandle> open_vmm(const Layout& layout, const SandboxPermit& sandbox) {
  const std::string& id = sandbox.id();
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

Result<VmmFacts> vmm_facts(const Layout& layout, const SandboxPermit& sandbox) {
  SPACE_CHECK(open_vmm(layout, sandbox));
  auto facts = read_vmm_launch(layout, sandbox.id());
  if (!facts) return wrap(facts.error(), "it is not known what the VMM was launched with");
  return facts;
}

Result<void> kill_vmm(const Cgroups& cgroups, const SandboxPermit& sandbox) {
  return cgroups.kill(sandbox.id());
}

Result<VmmMemory> open_vmm_memory(const Layout& layout, const SandboxPermit& sandbox) {
  SPACE_TRY(const VmmHandle vmm, open_vmm(layout, sandbox));
  const std::string process = fmt::format("/proc/{}", vmm.process.pid);
  VmmMemory memory;
  SPACE_TRY(memory.mem, open_fd(process + "/mem", O_RDONLY));
  SPACE_TRY(memory.maps, open_fd(process + "/maps", O_RDONLY));
  SPACE_TRY(memory.pagemap, open_fd(process + "/pagemap", O_RDONLY));
  // The number may have come to mean another process while they were opened, never after.
  if (!is_alive(vmm.process)) return fail(Code::not_found, "the VMM of {} has ended", sandbox.id());
  return memory;
}

Result<VmmExit> read_vmm_exit(const Layout& layout, const SandboxPermit& sandbox) {
  const std::string& id = sandbox.id();
  const VmmStatus status = vmm_status(layout, id);
  if (status.state == VmmState::exited) return status.exit;
  if (status.state == VmmState::ending)
    return fail(Code::unavailable, "the end of the VMM of {} is being recorded", id);
  return fail(Code::not_found, "the VMM of {} {}", id, status.state == VmmState::none ? "never ran" : "runs");
}

Result<void> forget_vmm(const Layout& layout, const Cgroups& cgroups, const SandboxPermit& sandbox) {
  const std::string& id = sandbox.id();
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
