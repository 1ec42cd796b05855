// Connecting and listening. Sockets are made by hand rather than by Asio so that none is ever inherited
// by a child process (SOCK_CLOEXEC) and a full accept queue or descriptor table is waited out.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/unix_address.h"
#include "net/stream.h"

namespace space {
namespace asio = boost::asio;

namespace {

constexpr Millis retry_after(20);  // between tries when a queue or table is full
constexpr int accept_queue = 4096;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<Address> unix_address(const std::string& path) {
  SPACE_TRY(const UnixAddress unix_path, UnixAddress::of(path));
  Address address;
  std::memcpy(&address.storage, unix_path.get(), unix_path.size());
  address.size = unix_path.size();
  return address;
}

Result<Address> tcp_address(const std::string& host, std::uint16_t port) {
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  Address address;
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
  } else {
    return fail(Code::invalid_argument, "{} is not an IP address", host);
  }
  return address;
}

Result<Fd> open_socket(const Address& address) {
  const int fd = ::socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail_errno(errno, "socket");
  return Fd(fd);
}

int pending_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// 0 or an errno. EAGAIN: the queue of a unix listener is full, and nothing was started.
Task<int> connect_once(asio::posix::stream_descriptor& socket, Address address) {
  if (::connect(socket.native_handle(), address.get(), address.size) == 0) co_return 0;
  if (errno != EINPROGRESS) co_return errno;
  const auto [error] = co_await socket.async_wait(asio::posix::stream_descriptor::wait_write,
                                                  asio::as_tuple(asio::use_awaitable));
  co_return error ? error.value() : pending_error(socket.native_handle());
}

Task<Result<StreamPtr>> connect(Address address) {
  const Executor executor = co_await asio::this_coro::executor;
  SPACE_CO_TRY(Fd fd, open_socket(address));
  asio::posix::stream_descriptor socket(executor, fd.release());
  int error = co_await connect_once(socket, address);
  while (error == EAGAIN) {
    co_await sleep_for(retry_after);
    error = co_await connect_once(socket, address);
  }
  if (error != 0) co_return fail(Code::unavailable, "connect: {}", std::strerror(error));
  co_return make_stream(executor, Fd(socket.release()));
}

class SocketListener final : public Listener {
 public:
  SocketListener(const Executor& executor, Fd fd, std::uint16_t port)
      : socket_(executor, fd.release()), port_(port) {}

  Task<Result<StreamPtr>> accept() override {
    while (socket_.is_open()) {
      Fd fd(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const int error = errno;
      if (fd) co_return make_stream(socket_.get_executor(), std::move(fd));
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        log::warn("accept is waiting for resources", {{"error", std::strerror(error)}});
        co_await sleep_for(retry_after * 10);
      } else if (error == EAGAIN) {
        const auto [ended] = co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                                         asio::as_tuple(asio::use_awaitable));
        if (ended) break;
      } else if (error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP) {
        co_return fail_errno(error, "accept");
      }  // anything else was the fate of one connection
    }
    co_return fail(Code::unavailable, "listener is closed");
  }

  std::uint16_t port() const override { return port_; }
  void close() noexcept override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::posix::stream_descriptor socket_;
  std::uint16_t port_;
};

std::uint16_t local_port(int fd) {
  Address address;
  address.size = sizeof address.storage;
  if (::getsockname(fd, address.get(), &address.size) != 0) return 0;
  // The port has the same place in sockaddr_in and sockaddr_in6.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace

Task<Result<StreamPtr>> connect_unix(std::string path, Deadline deadline) {
  SPACE_CO_TRY(const Address address, unix_address(path));
  co_return co_await with_deadline(connect(address), deadline, "connect");
}

Task<Result<StreamPtr>> connect_tcp(std::string host_address, std::uint16_t port, Deadline deadline) {
  SPACE_CO_TRY(const Address address, tcp_address(host_address, port));
  co_return co_await with_deadline(connect(address), deadline, "connect");
}

Result<std::unique_ptr<Listener>> listen_unix(const Executor& executor, const std::string& path,
                                              unsigned mode, int queue) {
  SPACE_TRY(const Address address, unix_address(path));
  SPACE_TRY(Fd fd, open_socket(address));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "replace socket");
  if (::bind(fd.get(), address.get(), address.size) != 0) return fail_errno(errno, "bind");
  // Nobody can connect before listen, so the mode is in place in time.
  if (::chmod(path.c_str(), mode) != 0) return fail_errno(errno, "chmod socket");
  if (::listen(fd.get(), queue) != 0) return fail_errno(errno, "listen");
  return std::make_unique<SocketListener>(executor, std::move(fd), std::uint16_t{0});
}

Result<std::unique_ptr<Listener>> listen_tcp(const Executor& executor, const std::string& host_address,
                                             std::uint16_t port) {
  SPACE_TRY(const Address address, tcp_address(host_address, port));
  SPACE_TRY(Fd fd, open_socket(address));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), address.get(), address.size) != 0) {
    return fail_errno(errno, fmt::format("listen on {} port {}", host_address, port));
  }
  if (::listen(fd.get(), accept_queue) != 0) return fail_errno(errno, "listen");
  const std::uint16_t bound = local_port(fd.get());
  return std::make_unique<SocketListener>(executor, std::move(fd), bound);
}

}  // namespace space
