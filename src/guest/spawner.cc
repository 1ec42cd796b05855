#include "guest/spawner.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <memory>

// Sanitizer instrumentation in the child would write to the shadow memory it shares with us.
#define SPACE_CHILD_SIDE __attribute__((no_sanitize("address", "thread", "undefined")))

namespace space::guest {

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;

struct Child {
  const SpawnPlan* plan = nullptr;
  const char* const* candidates = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  SpawnFailure failure;
};

std::vector<char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] SPACE_CHILD_SIDE void fail_child(Child* child, SpawnStage stage) {
  child->failure = {.stage = stage, .error_number = errno};
  _exit(127);
}

SPACE_CHILD_SIDE void reset_oom_score(Child* child) {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, "0", 1) != 1) fail_child(child, SpawnStage::prepare);
}

SPACE_CHILD_SIDE void reset_signals() {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &standard, nullptr);  // the one the daemon ignores
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

SPACE_CHILD_SIDE void attach_descriptors(Child* child) {
  const SpawnPlan& plan = *child->plan;
  if (::dup2(plan.stdin_fd, 0) < 0 || ::dup2(plan.stdout_fd, 1) < 0 || ::dup2(plan.stderr_fd, 2) < 0)
    fail_child(child, SpawnStage::prepare);
  if (plan.controlling_terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) fail_child(child, SpawnStage::prepare);
  if (::syscall(SYS_close_range, 3U, ~0U, 0U) != 0) fail_child(child, SpawnStage::prepare);
}

// By raw calls: the C library's forms make every thread of the process change, and the threads here are the
// daemon's.
SPACE_CHILD_SIDE void take_identity(Child* child) {
  const User& user = *child->plan->user;
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0 ||
      ::syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0)
    fail_child(child, SpawnStage::identity);
}

[[noreturn]] SPACE_CHILD_SIDE void run_child(Child* child) {
  const SpawnPlan& plan = *child->plan;
  ::setsid();
  if (plan.reset_oom_score) reset_oom_score(child);
  attach_descriptors(child);
  reset_signals();
  if (plan.user) take_identity(child);
  if (::chdir(plan.working_folder.c_str()) != 0) fail_child(child, SpawnStage::working_folder);
  errno = ENOENT;
  int refused = 0;
  for (const char* const* candidate = child->candidates; *candidate != nullptr; ++candidate) {
    ::execve(*candidate, child->arguments, child->environment);
    if (errno == EACCES) refused = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  if (refused != 0 && (errno == ENOENT || errno == ENOTDIR)) errno = refused;
  fail_child(child, SpawnStage::exec);
}

// The child starts on its own stack in `entry(child)`; the parent stands still until it has exec'ed or ended.
SPACE_CHILD_SIDE long clone_child(clone_args& arguments, void (*entry)(Child*), Child* child) {
  long result = 0;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[child], %%rdi\n\t"
      "call *%[entry]\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "0"(static_cast<long>(SYS_clone3)), "D"(&arguments),
        "S"(sizeof arguments), [child] "r"(child), [entry] "r"(entry)
      : "rcx", "r11", "memory", "cc");
  return result;
}

}  // namespace

std::expected<pid_t, SpawnFailure> spawn_program(const SpawnPlan& plan, std::atomic<pid_t>& pid) {
  static_assert(sizeof pid == sizeof(pid_t) && std::atomic<pid_t>::is_always_lock_free);
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  const auto candidates = c_strings(plan.candidates);
  const auto arguments = c_strings(plan.arguments);
  const auto environment = c_strings(plan.environment);
  Child child{.plan = &plan,
              .candidates = candidates.data(),
              .arguments = arguments.data(),
              .environment = environment.data()};

  clone_args call{};
  call.flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID;
  call.parent_tid = reinterpret_cast<std::uint64_t>(&pid);
  call.exit_signal = SIGCHLD;
  call.stack = reinterpret_cast<std::uint64_t>(stack.get());
  call.stack_size = stack_bytes;
  if (plan.cgroup_fd >= 0) {
    call.flags |= CLONE_INTO_CGROUP;
    call.cgroup = static_cast<std::uint64_t>(plan.cgroup_fd);
  }
  const long cloned = clone_child(call, run_child, &child);
  if (cloned < 0) return std::unexpected(SpawnFailure{SpawnStage::clone, static_cast<int>(-cloned)});
  if (child.failure.error_number != 0) return std::unexpected(child.failure);
  return static_cast<pid_t>(cloned);
}

}  // namespace space::guest
