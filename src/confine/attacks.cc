#include "confine/attacks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/fd.h"

namespace space::confine {
namespace {

constexpr int exit_executed = 42, exit_unprepared = 43, exit_unconfined = 44, exit_acted = 45;

long checked(long result) {
  return result < 0 ? -errno : result;
}

long close_checked(int fd) {
  if (fd < 0) return -errno;
  ::close(fd);
  return 0;
}

long execute() {
  char shell[] = "/bin/sh", flag[] = "-c", script[] = "exit 42";
  char* const argv[] = {shell, flag, script, nullptr};
  char* const environment[] = {nullptr};
  return checked(::execve(shell, argv, environment));
}

long fork_by(long call, unsigned long flags) {
  const long child = ::syscall(call, flags, 0, 0, 0, 0);
  if (child == 0) ::_exit(0);
  return checked(child);
}

long clone3_child() {
  struct {
    std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  } arguments{.flags = 0,
              .pidfd = 0,
              .child_tid = 0,
              .parent_tid = 0,
              .exit_signal = SIGCHLD,
              .stack = 0,
              .stack_size = 0,
              .tls = 0};
  const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) ::_exit(0);
  return checked(child);
}

long read_own_memory() {
  char from = 'x', to = 0;
  iovec local{&to, 1}, remote{&from, 1};
  return checked(::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0));
}

long map(int protection) {
  void* page = ::mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? -errno : 0;
}

long protect_to_execute() {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? -errno : checked(::mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

// A mount and a raw socket need a root user; in namespaces of its own anyone is one.
bool enter(int namespaces) {
  if (::geteuid() != 0) namespaces |= CLONE_NEWUSER;
  return ::unshare(namespaces) == 0;
}

bool enter_mounts() {
  return enter(CLONE_NEWNS) && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

sockaddr_in loopback(std::uint16_t port_in_network_order) {
  return {.sin_family = AF_INET,
          .sin_port = port_in_network_order,
          .sin_addr = {htonl(INADDR_LOOPBACK)},
          .sin_zero = {}};
}

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Attack open_attack(std::string name, std::string path, int flags) {
  return {std::move(name), {}, [=] { return close_checked(::open(path.c_str(), flags | O_CLOEXEC, 0600)); }};
}

Attack socket_attack(std::string name, int family, int type, std::function<bool()> prepare = {}) {
  return {std::move(name), std::move(prepare), [=] { return close_checked(::socket(family, type, 0)); }};
}

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string name_of_error(int error) {
  const char* name = ::strerrorname_np(error);
  return name == nullptr ? fmt::format("error {}", error) : name;
}

[[noreturn]] void run_child(const Attack& attack, const std::function<Result<void>()>& confine, int report) {
  if (attack.prepare && !attack.prepare()) ::_exit(exit_unprepared);
  if (confine && !confine()) ::_exit(exit_unconfined);
  const long result = attack.act();
  const int error = result < 0 ? static_cast<int>(-result) : 0;
  if (::write(report, &error, sizeof error) != sizeof error) ::_exit(1);
  ::_exit(exit_acted);
}

}  // namespace

std::string outcome_of(const Attack& attack, const std::function<Result<void>()>& confine) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const Fd heard(ends[0]);
  Fd report(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return "no process";
  if (child == 0) run_child(attack, confine, report.get());
  report.reset();
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "no child";
  if (WIFSIGNALED(status)) return name_of_signal(WTERMSIG(status));
  switch (WEXITSTATUS(status)) {
    case exit_executed:
      return "succeeded";
    case exit_unprepared:
      return "not prepared";
    case exit_unconfined:
      return "not confined";
  }
  int error = 0;
  if (::read(heard.get(), &error, sizeof error) != sizeof error) return "no report";
  return error == 0 ? "succeeded" : name_of_error(error);
}

Targets::Targets() {
  char pattern[] = "/tmp/space-targets-XXXXXX";
  folder = ::mkdtemp(pattern);
  secret = folder + "/secret";
  for (const std::string& path : {secret, folder + "/victim"})
    Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

Targets::~Targets() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::vector<Attack> attacks_on_files(const Targets& targets) {
  const std::string victim = targets.folder + "/victim";
  return {
      open_attack("read a secret", targets.secret, O_RDONLY),
      open_attack("overwrite a secret", targets.secret, O_WRONLY),
      open_attack("make a file", targets.folder + "/planted", O_WRONLY | O_CREAT),
      open_attack("list a folder", targets.folder, O_RDONLY | O_DIRECTORY),
      open_attack("read the users", "/etc/passwd", O_RDONLY),
      {"remove a file", {}, [=] { return checked(::unlink(victim.c_str())); }},
  };
}

std::vector<Attack> attacks_by_system_call(const Targets& targets) {
  const std::string folder = targets.folder;
  return {
      {"execute a program", {}, execute},
      {"fork", {}, [] { return fork_by(SYS_fork, 0); }},
      {"clone a process", {}, [] { return fork_by(SYS_clone, SIGCHLD); }},
      {"clone a process, version 3", {}, clone3_child},
      {"be traced", {}, [] { return checked(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      {"read a process's memory", {}, read_own_memory},
      {"mount", enter_mounts,
       [=] { return checked(::mount("none", folder.c_str(), "tmpfs", MS_NOSUID, nullptr)); }},
      {"leave a namespace", {}, [] { return checked(::unshare(CLONE_FS)); }},
      {"change the root", [] { return enter(CLONE_NEWNS); },
       [=] { return checked(::chroot(folder.c_str())); }},
      socket_attack("a socket to the network", AF_INET, SOCK_STREAM),
      socket_attack("a socket to the network, version 6", AF_INET6, SOCK_DGRAM),
      socket_attack("a socket to the kernel", AF_NETLINK, SOCK_RAW),
      socket_attack("a raw socket", AF_PACKET, SOCK_RAW, [] { return enter(CLONE_NEWNET); }),
      {"memory to execute", {}, [] { return map(PROT_READ | PROT_WRITE | PROT_EXEC); }},
      {"make memory executable", {}, protect_to_execute},
      {"a file in memory", {}, [] { return close_checked(::memfd_create("x", MFD_CLOEXEC)); }},
      {"change the user", {}, [] { return checked(::setuid(::getuid())); }},
      {"signal itself as another would", {}, [] { return checked(::kill(::getpid(), 0)); }},
      {"signal another process",
       {},
       [] { return checked(::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0)); }},
      {"hold another process",
       {},
       [] { return close_checked(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0))); }},
      {"become dumpable", {}, [] { return checked(::prctl(PR_SET_DUMPABLE, 1)); }},
      {"raise a limit",
       {},
       [] {
         const rlimit none{0, 0};
         return checked(::prlimit(0, RLIMIT_CORE, &none, nullptr));
       }},
      {"change personality", {}, [] { return checked(::personality(0xffffffff)); }},
      {"share memory",
       {},
       [] {
         const int id = ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
         return id < 0 ? -errno : checked(::shmctl(id, IPC_RMID, nullptr));
       }},
      {"make a link", {}, [=] { return checked(::symlink("/", (folder + "/link").c_str())); }},
      {"an unusual ioctl", {}, [] { return checked(::ioctl(STDIN_FILENO, FIOCLEX)); }},
  };
}

std::vector<Attack> attacks_on_ports() {
  // Made in the child, before it is confined: a socket, and somebody who listens.
  struct Sockets {
    Fd own, listener;
    sockaddr_in address = loopback(0);
  };
  const auto sockets = std::make_shared<Sockets>();
  const auto prepare = [sockets] {
    socklen_t size = sizeof sockets->address;
    sockets->own.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockets->listener.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in any = loopback(0);
    return sockets->own && ::bind(sockets->listener.get(), generic(any), sizeof any) == 0 &&
           ::listen(sockets->listener.get(), 1) == 0 &&
           ::getsockname(sockets->listener.get(), reinterpret_cast<sockaddr*>(&sockets->address), &size) == 0;
  };
  return {
      {"connect", prepare,
       [sockets] {
         return checked(::connect(sockets->own.get(), generic(sockets->address), sizeof sockets->address));
       }},
      {"take a port", prepare, [sockets] {
         const sockaddr_in any = loopback(0);
         return checked(::bind(sockets->own.get(), generic(any), sizeof any));
       }}};
}

}  // namespace space::confine
