#include "noded/confinement.h"

#include <seccomp.h>
#include <sys/prctl.h>

#include <cerrno>

#include "confine/seccomp.h"
#include "confine/vmm_calls.h"
#include "noded/door.h"
#include "priv/jail.h"

namespace space::noded {
namespace {

// Beside those of a VMM, which inherits this filter. Not among them: execve, ptrace, modules, keys, bpf,
// perf, clocks, swap, reboot and everything else a root process could ruin a machine with.
constexpr int of_verbs[] = {
    // files and folders of the pool, records, control groups
    SCMP_SYS(openat2), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(unlinkat),
    SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(linkat), SCMP_SYS(chmod),
    SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(fchownat),
    SCMP_SYS(umask), SCMP_SYS(chdir), SCMP_SYS(flock), SCMP_SYS(ioctl), SCMP_SYS(memfd_create),
    SCMP_SYS(copy_file_range),
    // sockets: its clients', a datagram one to bring a device up, netlink for the limits of a tap
    SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(bind), SCMP_SYS(connect),
    // workers and supervisors
    SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(wait4), SCMP_SYS(waitid),
    SCMP_SYS(kill), SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_send_signal), SCMP_SYS(setsid), SCMP_SYS(getsid),
    SCMP_SYS(setpriority), SCMP_SYS(prctl), SCMP_SYS(prlimit64), SCMP_SYS(getrlimit), SCMP_SYS(setrlimit),
    SCMP_SYS(pause),
    // slots and the jail
    SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(sethostname), SCMP_SYS(mount), SCMP_SYS(umount2),
    SCMP_SYS(pivot_root), SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(mount_setattr),
    SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(setgroups), SCMP_SYS(setresuid), SCMP_SYS(setresgid),
    SCMP_SYS(setuid), SCMP_SYS(landlock_create_ruleset), SCMP_SYS(landlock_add_rule),
    SCMP_SYS(landlock_restrict_self), SCMP_SYS(execveat)};

// Refused rather than fatal: a call that was forgotten fails its verb, and every VM keeps its manager.
Result<void> allow_system_calls() {
  SPACE_TRY(auto filter, confine::SyscallFilter::make(confine::Otherwise::refuse));
  SPACE_CHECK(filter.allow(confine::plain_vmm_system_calls()));
  SPACE_CHECK(filter.allow(of_verbs));
  return filter.load();
}

}  // namespace

Result<void> confine_noded() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno(errno, "no_new_privs");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail_errno(errno, "dumpable");
  SPACE_CHECK(priv::keep_capabilities(capabilities_of_all_verbs()));
  return allow_system_calls();
}

}  // namespace space::noded
