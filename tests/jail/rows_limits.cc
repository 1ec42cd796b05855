// Taking more than its share, and what came along from its parent.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

constexpr long mib = 1 << 20;

// Twice of what it may have; the end is SIGKILL, if it works.
const char* memory_bomb() {
  const long size = 2 * given.memory_mib * mib;
  const long at = call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at < 0 && at > -4096) return outcome(at);
  for (long page = 0; page < size; page += 4096)
    *reinterpret_cast<volatile char*>(static_cast<std::uintptr_t>(at + page)) = 1;
  return "ok";
}

// Threads that wait for ever, one more than it may have.
long sleeping_thread(char* stack) {
  long answer = SYS_clone;
  constexpr long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  static long forever[2] = {1 << 20, 0};
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n"
      "2:\n\t"
      "mov %[sleep], %%eax\n\t"
      "mov %[time], %%rdi\n\t"
      "xor %%esi, %%esi\n\t"
      "syscall\n\t"
      "jmp 2b\n"
      "1:"
      : "+a"(answer)
      : "D"(flags), "S"(stack), "d"(0L), [sleep] "i"(SYS_nanosleep), [time] "b"(forever)
      : "rcx", "r10", "r8", "r11", "memory");
  return answer;
}
const char* thread_bomb() {
  alignas(16) static char stacks[1024][64];
  for (long made = 1; made <= given.threads + 4 && made < 1024; ++made)
    if (const long answer = sleeping_thread(stacks[made]); answer < 0) return outcome(answer);
  return "ok";
}

const char* descriptor_bomb() {
  for (int made = 0; made < 2000; ++made)
    if (const long fd = call(SYS_dup, 0); fd < 0) return outcome(fd);
  return "ok";
}

template <int resource>
const char* limit() {
  rlimit found{};
  if (const long answer = call(SYS_prlimit64, 0, resource, 0, address_of(&found)); answer < 0)
    return outcome(answer);
  if (found.rlim_max == RLIM_INFINITY) return "unlimited";
  return text_with("", static_cast<long>(found.rlim_max));
}
template <int resource>
const char* raise_limit() {
  rlimit more{};
  call(SYS_prlimit64, 0, resource, 0, address_of(&more));
  more.rlim_cur = ++more.rlim_max;
  return outcome(call(SYS_prlimit64, 0, resource, address_of(&more), 0));
}
const char* raise_limit_old_way() {
  const rlimit more{RLIM_INFINITY, RLIM_INFINITY};
  return outcome(call(SYS_setrlimit, RLIMIT_CORE, address_of(&more)));
}
const char* limits_of_outside() {
  rlimit found{};
  return outcome(call(SYS_prlimit64, given.outside, RLIMIT_NOFILE, 0, address_of(&found)));
}

const char* lock_memory() {
  const long at = call(SYS_mmap, 0, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return outcome(call(SYS_mlock, at, mib));
}
// Far beyond its disk. Were SIGXFSZ not ignored, this would be the end.
const char* endless_file() {
  const char byte = 0;
  return outcome(call(SYS_pwrite64, given.disk, address_of(&byte), 1, 1L << 42));
}
const char* endless_file_by_size() {
  return outcome(call(SYS_ftruncate, given.disk, 1L << 42));
}
const char* endless_pipe() {
  int ends[2];
  if (const long answer = call(SYS_pipe2, address_of(ends), 0); answer < 0) return outcome(answer);
  return outcome(call(SYS_fcntl, ends[0], F_SETPIPE_SZ, 4 * mib));
}

const char* leaked_descriptor() {
  return outcome(call(SYS_fcntl, given.leaked, F_GETFD));
}
const char* other_descriptors() {
  long found = 0;
  for (int fd = given.end; fd < 4096; ++fd) found += call(SYS_fcntl, fd, F_GETFD) >= 0;
  return found == 0 ? "none" : text_with("", found);
}
const char* own_descriptors() {
  long found = 0;
  for (int fd = 0; fd < given.end; ++fd) found += call(SYS_fcntl, fd, F_GETFD) >= 0;
  return text_with("missing-", given.end - found);
}
// Its parent ignores SIGUSR1 and blocks SIGUSR2.
const char* ignored_signal() {
  struct {
    long handler;
    unsigned long flags, restorer, mask;
  } action{};
  if (const long answer = call(SYS_rt_sigaction, SIGUSR1, 0, address_of(&action), 8); answer < 0)
    return outcome(answer);
  return action.handler == 0 ? "default" : "ignored";
}
const char* blocked_signal() {
  unsigned long mask = 0;
  if (const long answer = call(SYS_rt_sigprocmask, 0, 0, address_of(&mask), 8); answer < 0)
    return outcome(answer);
  return mask == 0 ? "none" : "some";
}
const char* environment() {
  long found = 0;
  for (char** entry = environ; *entry != nullptr; ++entry) ++found;
  return found == 1 && std::strcmp(environ[0], "LC_ALL=C") == 0 ? "LC_ALL" : text_with("", found);
}

constexpr Row rows[] = {
    {"memory_bomb", memory_bomb},
    {"thread_bomb", thread_bomb},
    {"descriptor_bomb", descriptor_bomb},
    {"limit_core", limit<RLIMIT_CORE>},
    {"limit_open_files", limit<RLIMIT_NOFILE>},
    {"limit_locked_memory", limit<RLIMIT_MEMLOCK>},
    {"limit_message_queues", limit<RLIMIT_MSGQUEUE>},
    {"limit_realtime", limit<RLIMIT_RTPRIO>},
    {"raise_core", raise_limit<RLIMIT_CORE>},
    {"raise_open_files", raise_limit<RLIMIT_NOFILE>},
    {"raise_file_size", raise_limit<RLIMIT_FSIZE>},
    {"setrlimit", raise_limit_old_way},
    {"limits_of_outside", limits_of_outside},
    {"mlock", lock_memory},
    {"mlock2", [] { return outcome(call(SYS_mlock2, 0, 0, 0)); }},
    {"mlockall", [] { return outcome(call(SYS_mlockall, 1)); }},
    {"disk_beyond_limit", endless_file},
    {"disk_size_beyond_limit", endless_file_by_size},
    {"big_pipe", endless_pipe},
    {"leaked_descriptor", leaked_descriptor},
    {"other_descriptors", other_descriptors},
    {"own_descriptors", own_descriptors},
    {"ignored_signal", ignored_signal},
    {"blocked_signal", blocked_signal},
    {"environment", environment},
};

}  // namespace

std::span<const Row> limit_rows() {
  return rows;
}

}  // namespace space::jail
