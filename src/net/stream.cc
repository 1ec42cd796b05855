#include "net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>

#include "net/loopback.h"

namespace space {
namespace asio = boost::asio;

namespace {

// A writer whose peer always keeps up would never return to the loop; after this many writes it does.
constexpr unsigned writes_before_yield = 64;

std::unexpected<Error> broken(std::string_view what, const boost::system::error_code& error) {
  return fail(Code::unavailable, "{}: {}", what, error.message());
}

std::unexpected<Error> no_descriptors() {
  return fail(Code::invalid_argument, "this stream carries no descriptors");
}

// `Descriptor` is an asio socket or posix::stream_descriptor: they read alike and differ in how they write
// and end.
template <class Descriptor>
class FdStream final : public Stream {
 public:
  explicit FdStream(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  ~FdStream() override {
    if (!finished_ || !ended_) reset();
  }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const auto [error, n] = co_await descriptor_.async_read_some(asio::buffer(into.data(), into.size()),
                                                                 asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::eof) {
      ended_ = true;
      co_return 0;
    }
    if (error) co_return broken("read", error);
    co_return n;
  }

  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    if (++writes_ % writes_before_yield == 0) co_await asio::post(asio::use_awaitable);
    const ssize_t sent = write_now(bytes);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      co_return broken("write", {errno, boost::system::system_category()});
    }
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (bytes.empty()) co_return Result<void>{};
    const auto [error, n] = co_await asio::async_write(descriptor_, asio::buffer(bytes.data(), bytes.size()),
                                                       asio::as_tuple(asio::use_awaitable));
    if (error) co_return broken("write", error);
    co_return Result<void>{};
  }

  Task<Result<void>> write_with(std::span<const std::byte> bytes, int descriptor) override {
    if constexpr (is_socket) {
      if (!is_unix()) co_return no_descriptors();  // TCP would send the bytes without it
      ssize_t sent = -1;
      while ((sent = send_with(bytes, descriptor)) < 0) {
        const int error = errno;
        if (error == EINTR) continue;
        if (error != EAGAIN) co_return broken("write", {error, boost::system::system_category()});
        const auto [ended] =
            co_await descriptor_.async_wait(Descriptor::wait_write, asio::as_tuple(asio::use_awaitable));
        if (ended) co_return broken("write", ended);
      }
      co_return co_await write(bytes.subspan(static_cast<std::size_t>(sent)));
    } else {
      co_return no_descriptors();
    }
  }

  Task<Result<void>> finish() override {
    finished_ = true;
    if constexpr (is_socket) {
      if (::shutdown(descriptor_.native_handle(), SHUT_WR) != 0) {
        co_return broken("finish", {errno, boost::system::system_category()});
      }
    }
    co_return Result<void>{};
  }

  void reset() noexcept override {
    boost::system::error_code ignored;
    if constexpr (is_socket) {
      // TCP sends RST instead of FIN; unix sockets have no such thing and ignore it.
      const linger abort{.l_onoff = 1, .l_linger = 0};
      if (descriptor_.is_open()) {
        ::setsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
      }
    }
    descriptor_.close(ignored);
  }

  bool peer_is_loopback() const override {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int fd = const_cast<Descriptor&>(descriptor_).native_handle();  // it only tells
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 && is_loopback(address);
  }

 private:
  static constexpr bool is_socket = std::is_same_v<Descriptor, asio::generic::stream_protocol::socket>;

  ssize_t write_now(std::span<const std::byte> bytes) {
    if constexpr (is_socket) {
      return ::send(descriptor_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      return ::write(descriptor_.native_handle(), bytes.data(), bytes.size());
    }
  }

  bool is_unix() {
    int domain = 0;
    socklen_t size = sizeof domain;
    return ::getsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
           domain == AF_UNIX;
  }

  ssize_t send_with(std::span<const std::byte> bytes, int descriptor) {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return ::sendmsg(descriptor_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  Descriptor descriptor_;
  unsigned writes_ = 0;
  bool finished_ = false;
  bool ended_ = false;  // the peer's end was read
};

struct Copy {
  StreamPtr a;
  StreamPtr b;
  std::size_t buffer_bytes;

  void reset() noexcept {
    a->reset();
    b->reset();
  }
};

// `copy` lives in splice's frame, which waits for both directions.
Task<void> copy_one_way(Copy& copy, Stream& from, Stream& to) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(copy.buffer_bytes);
  while (true) {
    const auto n = co_await from.read({buffer.get(), copy.buffer_bytes});
    if (!n) co_return copy.reset();
    if (*n == 0) break;
    if (!co_await to.write({buffer.get(), *n})) co_return copy.reset();
  }
  if (!co_await to.finish()) copy.reset();
}

}  // namespace

Task<Result<void>> Stream::write_with(std::span<const std::byte>, int) {
  co_return no_descriptors();
}

StreamPtr make_stream(const Executor& executor, Fd fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
    asio::posix::stream_descriptor descriptor(executor, fd.release());
    descriptor.non_blocking(true);
    return std::make_unique<FdStream<asio::posix::stream_descriptor>>(std::move(descriptor));
  }
  const bool tcp = domain == AF_INET || domain == AF_INET6;
  if (tcp) {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  asio::generic::stream_protocol::socket socket(
      executor, asio::generic::stream_protocol(domain, tcp ? IPPROTO_TCP : 0), fd.release());
  socket.non_blocking(true);
  return std::make_unique<FdStream<asio::generic::stream_protocol::socket>>(std::move(socket));
}

Task<void> splice(StreamPtr a, StreamPtr b, std::size_t buffer_bytes) {
  using namespace asio::experimental::awaitable_operators;
  Copy copy{std::move(a), std::move(b), buffer_bytes};
  co_await (copy_one_way(copy, *copy.a, *copy.b) && copy_one_way(copy, *copy.b, *copy.a));
}

}  // namespace space
