#include "cli/supervisor.h"

#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/log.h"

namespace space::cli {

namespace {

constexpr Millis ready_limit{20'000};
constexpr Millis stop_look{5};
constexpr Millis backoff_max{5'000};

bool empty_bounding_set() {
  for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) return false;
  return true;
}

// For good: the user it is named with, no capability and no way to one. What else it can do without it gives
// up by itself once it has opened what it needs.
bool become_user(const DaemonSpec& spec) {
  ::umask(0077);
  return empty_bounding_set() && ::setgroups(0, nullptr) == 0 &&
         ::setresgid(spec.gid, spec.gid, spec.gid) == 0 && ::setresuid(spec.uid, spec.uid, spec.uid) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// In the child, between fork and exec.
[[noreturn]] void become(const DaemonSpec& spec, int log) {
  constexpr rlimit no_core_file{0, 0};
  constexpr unsigned first_stray = STDERR_FILENO + 1;
  ::dup2(log, STDERR_FILENO);
  ::dup2(log, STDOUT_FILENO);
  if (::close_range(first_stray, ~0U, 0) != 0 || ::setrlimit(RLIMIT_CORE, &no_core_file) != 0) ::_exit(126);
  // Raising it may be more than this machine gives: the daemon works with what it has.
  const rlimit files{spec.open_files, spec.open_files};
  if (spec.open_files != 0) (void)::setrlimit(RLIMIT_NOFILE, &files);
  if (spec.uid != 0 && !become_user(spec)) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, spec.leave_signal);  // after setresuid, which clears it
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& argument : spec.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::string describe(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Result<void> Supervisor::launch(std::size_t index) {
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "fork");
  if (pid == 0) become(daemons_[index], log_);
  children_[index].pid = pid;
  children_[index].started = system_clock().monotonic();
  return {};
}

Result<void> Supervisor::wait_ready(std::size_t index, Deadline deadline) {
  const DaemonSpec& spec = daemons_[index];
  while (!spec.ready()) {
    int status = 0;
    if (::waitpid(children_[index].pid, &status, WNOHANG) == children_[index].pid) {
      children_[index].pid = -1;
      return fail(Code::unavailable, "{} ended at start ({}); the end of the log says why", spec.name,
                  describe(status));
    }
    if (deadline.passed())
      return fail(Code::deadline, "{} was not ready within {} s", spec.name, ready_limit.count() / 1000);
    std::this_thread::sleep_for(Millis(5));
  }
  return {};
}

Result<void> Supervisor::start(const std::function<void(std::string)>& progress) {
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGCHLD}) ::sigaddset(&handled, signal);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the daemons become ours and are reaped
  signals_.reset(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  for (std::size_t i = 0; i < daemons_.size(); ++i) {
    const auto began = system_clock().monotonic();
    auto result = launch(i);
    if (result) result = wait_ready(i, Deadline::after(ready_limit));
    if (!result) {
      stop(Ending::daemons_only);
      return result;
    }
    progress(fmt::format("{} ready ({} ms)", daemons_[i].name,
                         std::chrono::duration_cast<Millis>(system_clock().monotonic() - began).count()));
  }
  return {};
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      Child& child = children_[i];
      if (child.pid != pid) continue;
      child.pid = -1;
      if (stopping_) continue;
      const auto now = system_clock().monotonic();
      if (now - child.started > std::chrono::seconds(10)) child.backoff = Millis(100);
      child.restart_at = now + child.backoff;
      log::error("daemon died", {{"daemon", daemons_[i].name},
                                 {"how", describe(status)},
                                 {"restart_in_ms", child.backoff.count()}});
      child.backoff = std::min(child.backoff * 2, backoff_max);
    }
  }
}

void Supervisor::restart_due() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].pid >= 0 || system_clock().monotonic() < children_[i].restart_at) continue;
    if (auto result = launch(i); !result) {
      children_[i].restart_at = system_clock().monotonic() + backoff_max;
      log::error("daemon could not be started", {{"daemon", daemons_[i].name}, log::Field(result.error())});
    }
  }
}

Result<Supervisor::Ending> Supervisor::run() {
  while (true) {
    pollfd watched{.fd = signals_.get(), .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, 100);
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGQUIT) return Ending::daemons_only;
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) return Ending::in_order;
    }
    reap();
    restart_due();
  }
}

void Supervisor::stop_one(std::size_t index, Ending ending, const std::function<void()>& waiting) {
  const Child& child = children_[index];
  const DaemonSpec& spec = daemons_[index];
  if (child.pid < 0) return;
  ::kill(child.pid, ending == Ending::in_order ? SIGTERM : spec.leave_signal);
  const Deadline deadline = Deadline::after(spec.stop_limit);
  while (child.pid >= 0 && !deadline.passed()) {
    std::this_thread::sleep_for(stop_look);
    waiting();
    reap();
  }
  if (child.pid < 0) return;
  log::warn("daemon did not stop, killing it", {{"daemon", spec.name}});
  ::kill(child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
  children_[index].pid = -1;
}

void Supervisor::stop(Ending ending, const std::function<void()>& waiting) {
  stopping_ = true;
  for (std::size_t i = children_.size(); i-- > 0;) stop_one(i, ending, waiting);
}

}  // namespace space::cli
