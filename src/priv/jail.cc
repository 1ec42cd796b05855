#include "priv/jail.h"

#include <cap-ng.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/bytes.h"
#include "base/fd.h"

namespace space::priv {
namespace {

Result<void> reset_signals(const JailSpec&) {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // fails for KILL and STOP only
  // A full disk or a closed log must be an error in QEMU, not its end.
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return fail_errno(errno, "sigprocmask");
  return {};
}

Result<void> enter_cgroups(const JailSpec& spec) {
  SPACE_CHECK(spec.cgroups->enter(spec.id));
  // When the whole machine runs out of memory, a sandbox goes before any daemon.
  SPACE_TRY(const Fd score, open_fd("/proc/self/oom_score_adj", O_WRONLY));
  return write_all(score.get(), as_bytes("500"));
}

Result<void> set_limits(const JailSpec& spec) {
  struct {
    __rlimit_resource resource;
    rlim_t value;
  } const limits[] = {
      {RLIMIT_CORE, 0},
      {RLIMIT_NOFILE, 512},
      {RLIMIT_FSIZE, spec.file_bytes_max},
      {RLIMIT_MSGQUEUE, 0},
      {RLIMIT_MEMLOCK, 64 << 10},
      {RLIMIT_NICE, 0},
      {RLIMIT_RTPRIO, 0},
      {RLIMIT_LOCKS, 16},
      {RLIMIT_SIGPENDING, 256},
      {RLIMIT_NPROC, spec.processes_max},
  };
  for (const auto& limit : limits) {
    rlimit now{};
    if (::getrlimit(limit.resource, &now) != 0) return fail_errno(errno, "getrlimit");
    const rlim_t value = std::min(limit.value, now.rlim_max);  // raising needs a power root may lack
    const rlimit wanted{value, value};
    if (::setrlimit(limit.resource, &wanted) != 0) return fail_errno(errno, "setrlimit");
  }
  return {};
}

Result<void> leave_namespaces(const JailSpec&) {
  // The network one is empty: the tap of the sandbox's slot arrives as a descriptor.
  if (::unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0) return fail_errno(errno, "unshare");
  return {};
}

Result<void> drop_capability_bounds(const JailSpec&) {
  capng_clear(CAPNG_SELECT_ALL);
  if (capng_apply(CAPNG_SELECT_BOUNDS) != 0 || capng_apply(CAPNG_SELECT_AMBIENT) != 0)
    return fail_errno(errno, "drop the capability bounds");
  return {};
}

Result<void> become_sandbox(const JailSpec& spec) {
  if (::setgroups(0, nullptr) != 0) return fail_errno(errno, "setgroups");
  if (::setresgid(spec.uid, spec.uid, spec.uid) != 0) return fail_errno(errno, "setresgid");
  if (::setresuid(spec.uid, spec.uid, spec.uid) != 0) return fail_errno(errno, "setresuid");
  return {};
}

Result<void> drop_capabilities(const JailSpec&) {
  SPACE_CHECK(keep_capabilities({}));
  if (::setuid(0) == 0) return fail(Code::internal, "uid 0 can be taken back");
  return {};
}

Result<void> forbid_new_privileges(const JailSpec&) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno(errno, "no_new_privs");
  return {};
}

constexpr JailLayer layers[] = {
    {"signals", reset_signals},
    {"cgroups", enter_cgroups},
    {"rlimits", set_limits},
    {"namespaces", leave_namespaces},
    {"capability bounds", drop_capability_bounds},
    {"identity", become_sandbox},
    {"capabilities", drop_capabilities},
    {"no_new_privs", forbid_new_privileges},
};

}  // namespace

std::span<const JailLayer> jail_layers() {
  return layers;
}

Result<void> enter_jail(const JailSpec& spec) {
  for (const JailLayer& layer : layers)
    if (auto worn = layer.put_on(spec); !worn) return wrap(worn.error(), layer.name);
  return {};
}

Result<void> keep_capabilities(std::initializer_list<int> kept) {
  capng_clear(CAPNG_SELECT_ALL);
  for (const int capability : kept)
    capng_update(CAPNG_ADD, static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED),
                 static_cast<unsigned>(capability));
  if (capng_apply(CAPNG_SELECT_CAPS) != 0) return fail_errno(errno, "drop capabilities");
  return {};
}

}  // namespace space::priv
