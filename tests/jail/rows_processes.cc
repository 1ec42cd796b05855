// Other processes, and being more than one.
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

constexpr long thread_flags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

template <long number, long... arguments>
const char* plain() {
  return outcome(call(number, arguments...));
}
template <long number, long... arguments>
const char* forking() {
  return outcome(call_that_forks(number, arguments...));
}
template <long number, long... more>
const char* at_outside() {
  return outcome(call(number, given.outside, more...));
}

const char* thread() {
  alignas(16) static char stack[16384];
  return outcome(call_that_forks(SYS_clone, thread_flags, address_of(stack + sizeof stack)));
}
// Flags of a thread and one more: a filter that only looks for the former would let it through.
const char* thread_in_new_mounts() {
  alignas(16) static char stack[16384];
  return outcome(call_that_forks(SYS_clone, thread_flags | CLONE_NEWNS, address_of(stack + sizeof stack)));
}
const char* clone3_process() {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  return outcome(call_that_forks(SYS_clone3, address_of(&arguments), sizeof arguments));
}
const char* trace_outside() {
  return outcome(call(SYS_ptrace, PTRACE_SEIZE, given.outside));
}

template <long number>
const char* memory_of_outside() {
  char byte = 0;
  iovec here{&byte, 1};
  // An address that the kernel checks last: EFAULT says that the process could be reached.
  iovec there{reinterpret_cast<void*>(4096), 1};
  return outcome(call(number, given.outside, address_of(&here), 1, address_of(&there), 1));
}
const char* signal_thread_outside() {
  return outcome(call(SYS_tgkill, given.outside, given.outside, 0));
}
const char* queue_to_outside() {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  return outcome(call(SYS_rt_sigqueueinfo, given.outside, 0, address_of(&info)));
}
// A descriptor that tells the kernel whom to signal; F_SETOWN looks the process up.
const char* signal_by_descriptor() {
  constexpr long set_owner = 8;
  return outcome(call(SYS_fcntl, given.qmp, set_owner, given.outside));
}
const char* realtime() {
  sched_param parameters{.sched_priority = 1};
  return outcome(call(SYS_sched_setscheduler, 0, SCHED_FIFO, address_of(&parameters)));
}
const char* realtime_by_attributes() {
  // struct sched_attr; its header cannot be had together with <sched.h>
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t deadline[3];
  } attributes{.size = 48, .policy = SCHED_FIFO, .flags = 0, .nice = 0, .priority = 1, .deadline = {}};
  return outcome(call(SYS_sched_setattr, 0, address_of(&attributes), 0));
}

const char* first_process() {
  return call(SYS_getpid) == 1 ? "1" : "another";
}
const char* parent_shown() {
  return call(SYS_getppid) == 0 ? "none" : "shown";
}
const char* host_name() {
  utsname names{};
  if (const long answer = call(SYS_uname, address_of(&names)); answer < 0) return outcome(answer);
  return std::strcmp(names.nodename, "vmm") == 0 ? "own" : "another";
}
// Under 32 bits, and with the numbers of x32: another table of calls behind the same filter.
const char* call_of_i386() {
  constexpr long getpid_of_i386 = 20;
  long answer = getpid_of_i386;
  asm volatile("int $0x80" : "+a"(answer) : : "r8", "r9", "r10", "r11", "memory");
  return outcome(answer);
}
const char* call_of_x32() {
  constexpr long x32_bit = 0x40000000;
  return outcome(call(x32_bit | SYS_getpid));
}

constexpr Row rows[] = {
    {"fork", forking<SYS_fork>},
    {"vfork", forking<SYS_vfork>},
    {"clone_process", forking<SYS_clone, SIGCHLD>},
    {"clone_newuser", forking<SYS_clone, SIGCHLD | CLONE_NEWUSER>},
    {"clone_newns", forking<SYS_clone, SIGCHLD | CLONE_NEWNS>},
    {"clone_newpid", forking<SYS_clone, SIGCHLD | CLONE_NEWPID>},
    {"clone_newnet", forking<SYS_clone, SIGCHLD | CLONE_NEWNET>},
    {"clone_newipc", forking<SYS_clone, SIGCHLD | CLONE_NEWIPC>},
    {"clone_newuts", forking<SYS_clone, SIGCHLD | CLONE_NEWUTS>},
    {"clone_newcgroup", forking<SYS_clone, SIGCHLD | CLONE_NEWCGROUP>},
    {"clone_untraced", forking<SYS_clone, SIGCHLD | CLONE_UNTRACED>},
    {"clone3", clone3_process},
    {"thread", thread},
    {"thread_in_new_mounts", thread_in_new_mounts},
    {"unshare_newuser", plain<SYS_unshare, CLONE_NEWUSER>},
    {"unshare_newns", plain<SYS_unshare, CLONE_NEWNS>},
    {"unshare_newpid", plain<SYS_unshare, CLONE_NEWPID>},
    {"unshare_newnet", plain<SYS_unshare, CLONE_NEWNET>},
    {"unshare_newipc", plain<SYS_unshare, CLONE_NEWIPC>},
    {"unshare_newuts", plain<SYS_unshare, CLONE_NEWUTS>},
    {"unshare_newcgroup", plain<SYS_unshare, CLONE_NEWCGROUP>},
    {"unshare_newtime", plain<SYS_unshare, CLONE_NEWTIME>},
    {"setns", plain<SYS_setns, 0, 0>},
    {"ptrace_outside", trace_outside},
    {"ptrace_traceme", plain<SYS_ptrace, PTRACE_TRACEME>},
    {"process_vm_readv", memory_of_outside<SYS_process_vm_readv>},
    {"process_vm_writev", memory_of_outside<SYS_process_vm_writev>},
    {"process_madvise", plain<SYS_process_madvise, -1, 0, 0, 0, 0>},
    {"process_mrelease", plain<SYS_process_mrelease, -1, 0>},
    {"kcmp", at_outside<SYS_kcmp, 1, 0, 0, 0>},
    {"pidfd_open", at_outside<SYS_pidfd_open, 0>},
    {"pidfd_open_itself", plain<SYS_pidfd_open, 1, 0>},
    {"pidfd_getfd", plain<SYS_pidfd_getfd, 0, 0, 0>},
    {"pidfd_send_signal", plain<SYS_pidfd_send_signal, 0, 0, 0, 0>},
    {"kill_outside", at_outside<SYS_kill, 0>},
    {"kill_first", plain<SYS_kill, 1, 0>},
    {"kill_all", plain<SYS_kill, -1, 0>},
    {"tkill_outside", at_outside<SYS_tkill, 0>},
    {"tgkill_outside", signal_thread_outside},
    {"sigqueue_outside", queue_to_outside},
    {"setown_outside", signal_by_descriptor},
    {"sched_fifo", realtime},
    {"sched_setattr_fifo", realtime_by_attributes},
    {"setpriority", plain<SYS_setpriority, 0, 0, -20>},
    {"ioprio_set", plain<SYS_ioprio_set, 1, 0, 1 << 13>},
    {"sched_setaffinity_outside", at_outside<SYS_sched_setaffinity, 0, 0>},
    {"get_priority_outside", plain<SYS_getpriority, 0, 1>},
    {"getpgid_outside", at_outside<SYS_getpgid>},
    {"setsid", plain<SYS_setsid>},
    {"wait_any", plain<SYS_wait4, -1, 0, 1, 0>},
    {"pid", first_process},
    {"parent", parent_shown},
    {"host_name", host_name},
    {"i386_call", call_of_i386},
    {"x32_call", call_of_x32},
};

}  // namespace

std::span<const Row> process_rows() {
  return rows;
}

}  // namespace space::jail
