#include "confine/daemon.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/log.h"

namespace space::confine {
namespace {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

constexpr std::uint64_t int_mask = 0xffffffff;

// Where the C library has two system calls for one thing, both: which one it takes changes with its version.
constexpr int common_calls[] = {
    // memory and threads
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_membarrier, SYS_futex, SYS_set_robust_list, SYS_rseq,
    SYS_sched_yield, SYS_sched_getaffinity, SYS_gettid, SYS_exit, SYS_exit_group,
    // time and signals
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_time,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    // questions about itself and the machine
    SYS_getpid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_getrusage,
    SYS_sysinfo, SYS_uname,
    // open descriptors
    SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_lseek,
    SYS_close, SYS_close_range, SYS_fcntl, SYS_dup, SYS_pipe, SYS_pipe2, SYS_eventfd2, SYS_poll, SYS_ppoll,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait, SYS_timerfd_create,
    SYS_timerfd_settime, SYS_timerfd_gettime, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg,
    SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt,
    // files, those of SQLite too (fchown: it asks for it when it runs as root)
    SYS_open, SYS_openat, SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_access,
    SYS_faccessat, SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getcwd, SYS_getdents64, SYS_fsync,
    SYS_fdatasync, SYS_sync_file_range, SYS_ftruncate, SYS_fallocate, SYS_fchmod, SYS_fchown, SYS_unlink,
    SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2};

Result<void> require_one_thread() {
  struct stat tasks{};  // a link for each thread, besides the two of every folder
  if (::stat("/proc/self/task", &tasks) != 0) return fail_errno(errno, "count threads");
  if (tasks.st_nlink != 3) return fail(Code::conflict, "a thread was started before the daemon was confined");
  return {};
}

// What is in memory is not written to a file at a crash, and not read by another process of the same uid.
Result<void> keep_memory_private() {
  constexpr rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return fail_errno(errno, "forbid core files");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return fail_errno(errno, "become non-dumpable");
  return {};
}

// An ordinary user has none and cannot shrink the bounding set either, which then is of no use to it: nothing
// it executes can gain any under no_new_privs.
Result<void> drop_capabilities() {
  for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
    if (::prctl(PR_CAPBSET_DROP, capability) != 0 && errno != EPERM)
      return fail_errno(errno, "empty the bounding set");
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return fail_errno(errno, "clear ambient capabilities");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return fail_errno(errno, "drop capabilities");
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return fail_errno(errno, "read capabilities");
  for (const auto& set : sets)
    if ((set.effective | set.permitted | set.inheritable) != 0)
      return fail(Code::internal, "capabilities are left after all were dropped");
  return {};
}

// The calls whose arguments make the difference.
Result<void> allow_harmless_forms(SyscallFilter& filter) {
  constexpr std::uint64_t thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
  constexpr std::uint64_t apart = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_PTRACE | CLONE_VFORK;
  SPACE_CHECK(filter.allow(SYS_clone, {{0, thread | apart, thread}}));
  // Its flags are in memory, where a filter does not look. The C library then takes clone.
  SPACE_CHECK(filter.refuse(std::array{SYS_clone3}, ENOSYS));
  for (const int call : {SYS_mmap, SYS_mprotect}) SPACE_CHECK(filter.allow(call, {{2, PROT_EXEC, 0}}));
  for (const std::uint64_t request : {FIONBIO, FIONREAD})
    SPACE_CHECK(filter.allow(SYS_ioctl, {{1, int_mask, request}}));
  SPACE_CHECK(filter.refuse(SYS_ioctl, ENOTTY, {{1, int_mask, TCGETS}}));  // isatty
  for (const std::uint64_t option : {PR_SET_NAME, PR_GET_NAME})
    SPACE_CHECK(filter.allow(SYS_prctl, {{0, int_mask, option}}));
  SPACE_CHECK(filter.allow(SYS_prlimit64, {{2, ~std::uint64_t{0}, 0}}));  // to read
  // abort() sends a signal to its own thread.
  return filter.allow(SYS_tgkill, {{0, int_mask, static_cast<std::uint64_t>(::getpid())}});
}

Result<void> filter_calls(const DaemonProfile& profile) {
  SPACE_TRY(SyscallFilter filter, SyscallFilter::make(Otherwise::kill));
  SPACE_CHECK(filter.allow(common_calls));
  SPACE_CHECK(filter.allow(profile.calls));
  SPACE_CHECK(allow_harmless_forms(filter));
  for (const CallWhen& rule : profile.calls_when) SPACE_CHECK(filter.allow(rule.call, {rule.when}));
  return filter.load();
}

}  // namespace

Result<void> confine_daemon(const DaemonProfile& profile) {
  if (sanitized) {
    log::warn("not confined: this build has a sanitizer");
    return {};
  }
  SPACE_CHECK(require_one_thread());
  SPACE_CHECK(keep_memory_private());
  SPACE_CHECK(drop_capabilities());
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno(errno, "set no_new_privs");
  if (auto limited = restrict_by_landlock({.rules = profile.files, .forbid_tcp = !profile.tcp}); !limited) {
    if (limited.error().code != Code::unavailable) return limited;
    log::warn("files are not confined", {log::Field(limited.error())});
  }
  const int abi = landlock_abi();  // not a question it may ask later
  SPACE_CHECK(filter_calls(profile));
  log::info("confined", {{"landlock_abi", abi}});
  return {};
}

}  // namespace space::confine
