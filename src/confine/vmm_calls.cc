#include "confine/vmm_calls.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "confine/seccomp.h"

namespace space::confine {
namespace {

constexpr int allowed[] = {
    // descriptors it has, and files of its read-only root
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(pwrite64),
    SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(lseek),
    SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(statfs),
    SCMP_SYS(fstatfs), SCMP_SYS(fdatasync), SCMP_SYS(fsync), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
    SCMP_SYS(fadvise64), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(access), SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd),
    SCMP_SYS(fchdir), SCMP_SYS(unlink), SCMP_SYS(fcntl), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
    // waiting
    SCMP_SYS(pipe2), SCMP_SYS(eventfd2), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select),
    SCMP_SYS(pselect6), SCMP_SYS(signalfd4), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime),
    // the sockets it was given: it takes connections on them and makes none of its own
    SCMP_SYS(listen), SCMP_SYS(accept4), SCMP_SYS(recvmsg), SCMP_SYS(recvfrom), SCMP_SYS(sendmsg),
    SCMP_SYS(sendto), SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt),
    // its own memory; under TCG it translates code and runs it
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    SCMP_SYS(mlock), SCMP_SYS(munlock), SCMP_SYS(msync), SCMP_SYS(mincore), SCMP_SYS(membarrier),
    // threads, time and signals
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address),
    SCMP_SYS(arch_prctl), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_getres), SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday),
    SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(tgkill) /* its own threads: in its namespace of processes there is nobody else */,
    SCMP_SYS(exit), SCMP_SYS(exit_group),
    // what it may know of itself
    SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(sysinfo), SCMP_SYS(uname),
    // the filter of its own -sandbox, which can only take away
    SCMP_SYS(seccomp)};

// Tried by QEMU, glib or glibc, all of which go on without. memfd_create would be a way to run code from
// memory through the one exec that is let through; a memfd can be put under any number.
constexpr int not_there[] = {
    SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),    SCMP_SYS(io_uring_register),
    SCMP_SYS(clone3),         SCMP_SYS(set_mempolicy),     SCMP_SYS(get_mempolicy),
    SCMP_SYS(mbind),          SCMP_SYS(sched_setaffinity), SCMP_SYS(memfd_create),
    SCMP_SYS(userfaultfd),    SCMP_SYS(perf_event_open),   SCMP_SYS(openat2)};
constexpr int denied[] = {SCMP_SYS(socket), SCMP_SYS(connect), SCMP_SYS(bind)};
constexpr int not_permitted[] = {SCMP_SYS(execve)};

constexpr std::uint64_t low_half = 0xffffffff;

Result<void> allow_threads(SyscallFilter& filter) {
  constexpr std::uint64_t wanted =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  constexpr std::uint64_t never = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME | CLONE_PTRACE |
                                  CLONE_UNTRACED;
  return filter.allow(SCMP_SYS(clone), {{0, wanted | never, wanted}});
}

Result<void> allow_prctl(SyscallFilter& filter) {
  for (const std::uint64_t option :
       {PR_SET_NAME, PR_GET_NAME, PR_SET_TIMERSLACK, PR_MCE_KILL, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS,
        PR_GET_SECCOMP, PR_SET_SECCOMP})
    SPACE_CHECK(filter.allow(SCMP_SYS(prctl), {{0, low_half, option}}));
  // glibc names the memory it maps; for a reader of /proc only, and no harm without.
  return filter.refuse(SCMP_SYS(prctl), EINVAL, {{0, low_half, 0x53564d41 /* PR_SET_VMA */}});
}

Result<void> allow_ioctl(SyscallFilter& filter) {
  // The tap arrives configured: its flags and sizes may change, never which device it is (TUNSETIFF).
  for (const std::uint64_t request :
       {FIONBIO, static_cast<int>(TUNGETFEATURES), static_cast<int>(TUNGETIFF),
        static_cast<int>(TUNSETOFFLOAD), static_cast<int>(TUNSETSNDBUF), static_cast<int>(TUNGETVNETHDRSZ),
        static_cast<int>(TUNSETVNETHDRSZ), static_cast<int>(TUNSETVNETLE), static_cast<int>(TUNSETVNETBE)})
    SPACE_CHECK(filter.allow(SCMP_SYS(ioctl), {{1, low_half, request & low_half}}));
  constexpr std::uint64_t kind = 0xff00, kvm = 0xae00;
  SPACE_CHECK(filter.allow(SCMP_SYS(ioctl), {{1, kind, kvm}}));
  // On a load virtio-net takes a steering program away that it never gave.
  SPACE_CHECK(filter.refuse(SCMP_SYS(ioctl), EPERM,
                            {{1, low_half, static_cast<int>(TUNSETSTEERINGEBPF) & low_half}}));
  return filter.refuse(SCMP_SYS(ioctl), ENOTTY, {{1, low_half, TCGETS}});
}

// Its limits are there to be read; raising a soft one to the hard one gains nothing.
Result<void> allow_limits(SyscallFilter& filter) {
  return filter.allow(SCMP_SYS(prlimit64), {{2, ~std::uint64_t{0}, 0}});
}

}  // namespace

std::span<const int> plain_vmm_system_calls() {
  return allowed;
}

Result<void> allow_vmm_system_calls(int program) {
  SPACE_TRY(SyscallFilter filter, SyscallFilter::make(Otherwise::kill));
  SPACE_CHECK(filter.allow(allowed));
  SPACE_CHECK(filter.refuse(not_there, ENOSYS));
  SPACE_CHECK(filter.refuse(denied, EACCES));
  SPACE_CHECK(filter.refuse(not_permitted, EPERM));
  SPACE_CHECK(allow_threads(filter));
  SPACE_CHECK(allow_prctl(filter));
  SPACE_CHECK(allow_ioctl(filter));
  SPACE_CHECK(allow_limits(filter));
  SPACE_CHECK(filter.allow(SCMP_SYS(execveat), {{0, low_half, static_cast<std::uint64_t>(program)},
                                                {4, low_half, AT_EMPTY_PATH}}));
  return filter.load();
}

}  // namespace space::confine
