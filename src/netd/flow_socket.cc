#include "netd/flow_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;
using Descriptor = asio::posix::stream_descriptor;

constexpr Millis goodbye_limit = 2s;
constexpr std::size_t goodbye_bytes_max = 256 * 1024;
constexpr unsigned operations_before_yield = 32;

constexpr bool again(int error) {
  return error == EAGAIN || error == EINTR;
}

void abort_on_close(int fd) noexcept {
  const linger abort{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
}

class FlowStream final : public Stream {
 public:
  explicit FlowStream(FlowSocketPtr socket) : socket_(std::move(socket)) {}
  ~FlowStream() override {
    if (!finished_ || !ended_) socket_->reset();
    socket_->close();
  }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    co_await yield_now_and_then();
    while (true) {
      const ssize_t n = ::recv(socket_->fd(), into.data(), into.size(), 0);
      if (n > 0) co_return static_cast<std::size_t>(n);
      if (n == 0) {
        ended_ = true;
        co_return 0;
      }
      if (!again(errno)) co_return fail(Code::unavailable, "read: {}", std::strerror(errno));
      co_await socket_->readable();
    }
  }

  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    co_await yield_now_and_then();
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      } else if (again(errno)) {
        co_await socket_->writable();
      } else {
        co_return fail(Code::unavailable, "write: {}", std::strerror(errno));
      }
    }
    co_return Result<void>();
  }

  Task<Result<void>> finish() override {
    finished_ = true;
    socket_->finish();
    co_return Result<void>();
  }
  void reset() noexcept override { socket_->reset(); }

 private:
  Task<void> yield_now_and_then() {
    if (++operations_ % operations_before_yield == 0) co_await asio::post(asio::use_awaitable);
  }

  FlowSocketPtr socket_;
  unsigned operations_ = 0;
  bool finished_ = false;
  bool ended_ = false;
};

Task<Result<void>> drop_input(FlowSocketPtr socket) {
  std::array<char, 4096> dropped;
  std::size_t left = goodbye_bytes_max;
  while (left > 0) {
    const ssize_t n = ::recv(socket->fd(), dropped.data(), dropped.size(), 0);
    if (n == 0 || (n < 0 && !again(errno))) break;
    if (n < 0) {
      co_await socket->readable();
    } else {
      left -= std::min(left, static_cast<std::size_t>(n));
    }
  }
  co_return Result<void>();
}

}  // namespace

Task<void> FlowSocket::wait(Descriptor::wait_type what) {
  if (!open()) co_return;
  co_await descriptor_.async_wait(what, asio::as_tuple(asio::use_awaitable));
  // A cancelled wait must not look as if something had happened.
  if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none)
    throw boost::system::system_error(asio::error::operation_aborted);
}

Task<void> FlowSocket::readable() {
  return wait(Descriptor::wait_read);
}

Task<void> FlowSocket::writable() {
  return wait(Descriptor::wait_write);
}

Task<void> FlowSocket::broken() {
  return wait(Descriptor::wait_error);
}

bool FlowSocket::failed() {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

void FlowSocket::finish() noexcept {
  ::shutdown(fd(), SHUT_WR);
}

void FlowSocket::reset() noexcept {
  if (!open()) return;
  abort_on_close(descriptor_.native_handle());
  close();
}

void FlowSocket::close() noexcept {
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

StreamPtr stream_of(FlowSocketPtr socket) {
  return std::make_unique<FlowStream>(std::move(socket));
}

Task<void> say_goodbye(FlowSocketPtr socket, std::string last) {
  // It fits the socket's own buffer: whoever does not take so little gets nothing more.
  ::send(socket->fd(), last.data(), last.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  socket->finish();
  co_await with_deadline(drop_input(socket), Deadline::after(goodbye_limit), "goodbye");
  socket->close();
}

void reset_connection(Fd connected) noexcept {
  abort_on_close(connected.get());
}

}  // namespace space::netd
