#include "priv/jail.h"

#include <cap-ng.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/bytes.h"
#include "confine/landlock.h"
#include "confine/vmm_calls.h"
#include "priv/bundle.h"
#include "priv/jail_talk.h"
#include "priv/mount_tree.h"
#include "priv/process.h"

namespace space::priv {
namespace {

Result<void> reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // fails for KILL and STOP only
  // A full disk or a closed log must be an error in QEMU, not its end.
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return fail_errno(errno, "sigprocmask");
  return {};
}

Result<void> keep_own_descriptors(const JailSpec& spec) {
  SPACE_CHECK(reset_signals());
  ::setsid();  // fails only when it leads a session already
  std::vector<int> kept{spec.parent,
                        spec.program(),
                        spec.root->bundle.get(),
                        spec.root->memory.get(),
                        spec.root->kernel.get(),
                        spec.root->initramfs.get()};
  for (int own = 0; own < spec.inherited_end; ++own) kept.push_back(own);
  close_all_except(std::move(kept));
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

// That of processes began with the fork. The network one is empty: the tap of the sandbox's slot arrives as a
// descriptor.
Result<void> leave_namespaces(const JailSpec&) {
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) != 0)
    return fail_errno(errno, "unshare");
  // The host's own name would still be told by uname.
  constexpr std::string_view name = "vmm";
  if (::sethostname(name.data(), name.size()) != 0) return fail_errno(errno, "sethostname");
  return {};
}

Result<void> change_root(const JailSpec& spec) {
  SPACE_CHECK(make_mounts_private());
  SPACE_CHECK(become_root(spec.root->bundle, spec.scratch.c_str()));
  SPACE_CHECK(attach_mount(spec.root->memory, AT_FDCWD, bundle_memory));
  SPACE_CHECK(attach_mount(spec.root->kernel, AT_FDCWD, bundle_kernel));
  SPACE_CHECK(attach_mount(spec.root->initramfs, AT_FDCWD, bundle_initramfs));
  // Anew, so that what is exec'd is a file of this root.
  SPACE_TRY(const Fd program, open_fd(bundle_program, O_PATH));
  if (::dup3(program.get(), spec.program(), O_CLOEXEC) < 0) return fail_errno(errno, "place the program");
  return {};
}

// After the other namespaces, which therefore belong to the host's user namespace: whatever power one could
// win in this one would be none over them.
Result<void> leave_user_namespace(const JailSpec& spec) {
  if (::unshare(CLONE_NEWUSER) != 0) {
    const int error = errno;
    if (error == EINVAL || error == ENOSPC || error == EPERM || error == ENOSYS)
      return fail(Code::unavailable, "this kernel gives no user namespaces");
    return fail_errno(error, "unshare");
  }
  return ask_for_user_mapping(spec.parent);
}

Result<void> become_sandbox(const JailSpec& spec) {
  // Otherwise the power to take the rest away would go with the uid.
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return fail_errno(errno, "keep capabilities");
  if (::setgroups(0, nullptr) != 0) return fail_errno(errno, "setgroups");
  if (::setresgid(spec.uid, spec.uid, spec.uid) != 0) return fail_errno(errno, "setresgid");
  if (::setresuid(spec.uid, spec.uid, spec.uid) != 0) return fail_errno(errno, "setresuid");
  return {};
}

Result<void> drop_capabilities(const JailSpec& spec) {
  SPACE_CHECK(keep_capabilities(std::uint64_t{1} << CAP_SETPCAP));
  constexpr unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0) return fail_errno(errno, "securebits");
  SPACE_CHECK(keep_capabilities(0));
  if (spec.uid != 0 && ::setuid(0) == 0) return fail(Code::internal, "uid 0 can be taken back");
  return {};
}

Result<void> forbid_new_privileges(const JailSpec&) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno(errno, "no_new_privs");
  return {};
}

// Until the exec; from then on because the program's file cannot be read (bundle.h).
Result<void> forbid_dumps(const JailSpec&) {
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail_errno(errno, "dumpable");
  return {};
}

Result<void> restrict_files(const JailSpec& spec) {
  using confine::Reach;
  confine::LandlockLimits limits;
  limits.rules.push_back({"the program", Reach::execute, spec.program()});
  const auto allow = [&](const char* path, Reach reach) {
    if (::access(path, F_OK) == 0) limits.rules.push_back({path, reach});
  };
  for (const char* libraries : {"/lib", "/lib64", "/usr/lib"}) allow(libraries, Reach::execute);
  for (const char* data : {"/usr/share", "/memory", "/kernel", "/initramfs"}) allow(data, Reach::read);
  return confine::restrict_by_landlock(limits);
}

Result<void> allow_system_calls(const JailSpec& spec) {
  return confine::allow_vmm_system_calls(spec.program());
}

constexpr const char* part_of_every_kernel = "Linux 6.1 or later has it: look for what switched it off";
constexpr JailLayer layers[] = {
    {"descriptors", keep_own_descriptors, part_of_every_kernel},
    {"cgroups", enter_cgroups, "mount the memory, pids and cpu controllers"},
    {"rlimits", set_limits, part_of_every_kernel},
    {"namespaces", leave_namespaces, part_of_every_kernel},
    {"root", change_root, part_of_every_kernel},
    {"user namespace", leave_user_namespace, "set user.max_user_namespaces above 0"},
    {"identity", become_sandbox, part_of_every_kernel},
    {"capabilities", drop_capabilities, part_of_every_kernel},
    {"no_new_privs", forbid_new_privileges, part_of_every_kernel},
    {"not dumpable", forbid_dumps, part_of_every_kernel},
    {"landlock", restrict_files, "add landlock to lsm= on the kernel's command line"},
    {"seccomp", allow_system_calls, part_of_every_kernel},
};

bool is_landlock_felt() {
  // Everybody may read the file; only Landlock can be what refuses.
  const auto canary = open_fd(std::string("/") + bundle_canary, O_RDONLY);
  return !canary && canary.error().code == Code::permission_denied;
}

}  // namespace

Result<JailRoot> make_jail_root(const Fd& bundle, const Fd& memory, const Fd& kernel, const Fd& initramfs) {
  JailRoot root;
  SPACE_TRY(root.bundle, detached_mount(bundle, Runs::programs));
  SPACE_TRY(root.memory, detached_mount(memory, Runs::nothing));
  SPACE_TRY(root.kernel, detached_mount(kernel, Runs::nothing));
  SPACE_TRY(root.initramfs, detached_mount(initramfs, Runs::nothing));
  return root;
}

std::span<const JailLayer> jail_layers() {
  return layers;
}

Result<pid_t> fork_into_jail(bool new_process_namespace) {
  if (new_process_namespace && ::unshare(CLONE_NEWPID) != 0)
    return fail_errno(errno, "make a process namespace");
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "fork");
  return pid;
}

Result<void> enter_jail(const JailSpec& spec, std::span<const std::string> may_miss,
                        std::span<const JailLayer> wanted) {
  SPACE_CHECK(await_leave(spec.parent));
  Worn worn;
  for (const JailLayer& layer : wanted) {
    const auto result = layer.put_on(spec);
    if (result && std::string_view(layer.name) == "landlock" && is_landlock_felt())
      worn.landlock_abi = confine::landlock_abi();
    if (result) continue;
    const bool is_missing = result.error().code == Code::unavailable;
    if (is_missing && std::ranges::find(may_miss, layer.name) != may_miss.end())
      worn.missing.emplace_back(layer.name);
    else if (is_missing)
      return fail(Code::unavailable,
                  "the jail's layer '{}' cannot be put on: {}; {}, or allow it to be missing", layer.name,
                  result.error().message, layer.advice);
    else
      return wrap(result.error(), layer.name);
  }
  return tell_worn(spec.parent, worn);
}

Error enter_jail_and_exec(const JailSpec& spec, std::span<const std::string> may_miss,
                          std::span<const std::string> arguments, std::span<const JailLayer> wanted) {
  std::vector<char*> words;
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char locale[] = "LC_ALL=C";
  char* environment[] = {locale, nullptr};
  auto entered = enter_jail(spec, may_miss, wanted);
  if (entered) {
    ::execveat(spec.program(), "", words.data(), environment, AT_EMPTY_PATH);
    entered = fail_errno(errno, "exec");
  }
  tell_failure(spec.parent, entered.error());
  return entered.error();
}

Result<void> keep_capabilities(std::uint64_t kept) {
  const auto fill = [&] {
    capng_clear(CAPNG_SELECT_ALL);
    for (unsigned capability = 0; capability <= static_cast<unsigned>(CAP_LAST_CAP); ++capability)
      if ((kept >> capability & 1) != 0)
        capng_update(CAPNG_ADD,
                     static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_BOUNDING_SET),
                     capability);
  };
  // Dropping from the bounding set needs CAP_SETPCAP to be effective, also where only permitted so far.
  capng_get_caps_process();
  const bool may_drop_bounds = capng_have_capability(CAPNG_PERMITTED, CAP_SETPCAP) != 0;
  if (may_drop_bounds) {
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE, CAP_SETPCAP);
    if (capng_apply(CAPNG_SELECT_CAPS) != 0) return fail_errno(errno, "raise CAP_SETPCAP");
    fill();
    if (capng_apply(CAPNG_SELECT_BOUNDS) != 0) return fail_errno(errno, "drop the capability bounds");
  }
  fill();
  if (capng_apply(CAPNG_SELECT_AMBIENT) != 0 || capng_apply(CAPNG_SELECT_CAPS) != 0)
    return fail_errno(errno, "drop capabilities");
  return {};
}

}  // namespace space::priv
