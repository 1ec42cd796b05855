#include "bench/egress_peers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "core/ip_address.h"

namespace space::bench {
namespace {

constexpr int backlog = 4096;
const IpAddress loopback = IpAddress::v4(0x7f00'0001);

// One event loop over the three listeners and what they accepted.
class ServerLoop {
 public:
  ServerLoop(const Servers& servers, std::int64_t bytes)
      : servers_(servers), bytes_(bytes), poll_(::epoll_create1(EPOLL_CLOEXEC)), block_(256 * 1024) {}

  void run() {
    for (const Fd* listener : {&servers_.greet, &servers_.source, &servers_.refuse})
      watch(listener->get(), EPOLLIN);
    std::array<epoll_event, 256> events;
    while (true) {
      const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) serve(events[static_cast<std::size_t>(i)].data.fd);
    }
  }

 private:
  void watch(int fd, std::uint32_t what) {
    epoll_event event{.events = what, .data = {.fd = fd}};
    ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void serve(int fd) {
    if (fd == servers_.greet.get() || fd == servers_.source.get() || fd == servers_.refuse.get())
      return accept(fd);
    const auto found = left_.find(fd);
    if (found == left_.end()) return drain(fd);
    const auto size = std::min<std::int64_t>(found->second, static_cast<std::int64_t>(block_.size()));
    const ssize_t n = ::send(fd, block_.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL);
    if (n > 0) found->second -= n;
    if ((n < 0 && errno != EAGAIN) || found->second == 0) {
      left_.erase(found);
      ::close(fd);
    }
  }

  void accept(int listener) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (listener == servers_.refuse.get()) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::close(fd);
    } else if (listener == servers_.source.get()) {
      left_[fd] = bytes_;
      watch(fd, EPOLLOUT);
    } else {
      (void)::send(fd, "h", 1, MSG_NOSIGNAL);
      watch(fd, EPOLLIN);
    }
  }

  void drain(int fd) {
    const ssize_t n = ::recv(fd, block_.data(), block_.size(), 0);
    if (n > 0 || (n < 0 && errno == EAGAIN)) return;
    if (n == 0) (void)::send(fd, "e", 1, MSG_NOSIGNAL);
    ::close(fd);
  }

  const Servers& servers_;
  std::int64_t bytes_;
  Fd poll_;
  std::vector<char> block_;
  std::map<int, std::int64_t> left_;  // to send
};

}  // namespace

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::int64_t ChildProcess::rss_kib() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string word; status >> word;)
    if (std::int64_t kib = 0; word == "VmRSS:" && status >> kib) return kib;
  return 0;
}

Result<ChildProcess> start_child(const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) body();
    ::_exit(1);
  }
  return ChildProcess(pid);
}

Result<Fd> loopback_socket(int type) {
  Fd fd(::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress any = to_sockaddr(loopback, 0);
  if (::bind(fd.get(), any.get(), any.size) != 0) return fail_errno(errno, "bind");
  if (type == SOCK_STREAM && ::listen(fd.get(), backlog) != 0) return fail_errno(errno, "listen");
  return fd;
}

std::uint16_t port_of(const Fd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Result<Fd> connect_loopback(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const SocketAddress to = to_sockaddr(loopback, port);
  if (::connect(fd.get(), to.get(), to.size) != 0) return fail_errno(errno, "connect");
  return fd;
}

Result<ChildProcess> start_servers(const Servers& servers, std::int64_t bytes) {
  return start_child([&] { ServerLoop(servers, bytes).run(); });
}

Result<ChildProcess> start_nginx(const std::string& program, const std::string& module,
                                 const std::string& folder, std::uint16_t up_port, std::uint16_t down_port,
                                 std::uint16_t greet_port, std::uint16_t source_port) {
  const std::string configuration = folder + "/nginx.conf";
  std::ofstream(configuration) << fmt::format(
      "load_module {};\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 65536;\ndaemon off;\n"
      "master_process off;\npid {}/nginx.pid;\nerror_log {}/nginx.log;\nevents {{ worker_connections 16384; "
      "}}\n"
      "stream {{\n  tcp_nodelay on;\n  proxy_half_close on;\n  server {{ listen 127.0.0.1:{} backlog=4096; "
      "proxy_pass 127.0.0.1:{}; }}\n"
      "  server {{ listen 127.0.0.1:{} backlog=4096; proxy_pass 127.0.0.1:{}; }}\n}}\n",
      module, folder, folder, up_port, greet_port, down_port, source_port);
  SPACE_TRY(ChildProcess nginx, start_child([&] {
              ::execl(program.c_str(), "nginx", "-p", folder.c_str(), "-c", configuration.c_str(), nullptr);
            }));
  for (int i = 0; i < 500; ++i) {
    if (connect_loopback(up_port) && connect_loopback(down_port)) return nginx;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fail(Code::unavailable, "nginx does not listen");
}

}  // namespace space::bench
