// ReceivingStream: the far end of a unix socket over which descriptors come, for fakes and tests. The streams
// of the product take none in.
#pragma once

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "net/stream.h"

namespace space::vmm {

class ReceivingStream final : public Stream {
 public:
  // A connected unix socket, non-blocking.
  ReceivingStream(const Executor& executor, Fd socket) : socket_(executor, socket.release()) {}

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    while (true) {
      const ssize_t count = receive(into);
      if (count >= 0) co_return static_cast<std::size_t>(count);
      if (errno != EAGAIN && errno != EINTR)
        co_return fail(Code::unavailable, "read: {}", std::strerror(errno));
      if (auto error = co_await ready(boost::asio::posix::stream_descriptor::wait_read)) co_return *error;
    }
  }

  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
      if (sent > 0 || errno == EINTR) continue;
      if (errno != EAGAIN) co_return fail(Code::unavailable, "write: {}", std::strerror(errno));
      if (auto error = co_await ready(boost::asio::posix::stream_descriptor::wait_write)) co_return *error;
    }
    co_return Result<void>();
  }

  Task<Result<void>> finish() override {
    ::shutdown(socket_.native_handle(), SHUT_WR);
    co_return Result<void>();
  }
  void reset() noexcept override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }
  Fd take_descriptor() override {
    if (descriptors_.empty()) return {};
    Fd oldest = std::move(descriptors_.front());
    descriptors_.pop_front();
    return oldest;
  }

 private:
  using Wait = boost::asio::posix::stream_descriptor::wait_type;

  Task<std::optional<std::unexpected<Error>>> ready(Wait what) {
    const auto [error] = co_await socket_.async_wait(what, boost::asio::as_tuple(boost::asio::use_awaitable));
    if (error) co_return fail(Code::unavailable, "wait: {}", error.message());
    co_return std::nullopt;
  }

  ssize_t receive(std::span<std::byte> into) {
    iovec data{into.data(), into.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0) return count;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      descriptors_.emplace_back(fd);
    }
    return count;
  }

  boost::asio::posix::stream_descriptor socket_;
  std::deque<Fd> descriptors_;
};

}  // namespace space::vmm
