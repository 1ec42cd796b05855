#include "netd/dns_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "netd/wire_reader.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

constexpr unsigned datagrams_a_turn = 32;  // then the loop's others have theirs
constexpr Millis flood_pause{10};          // the socket's queue overflows meanwhile: the kernel drops, not we
constexpr Millis idle_time{10'000};

// Who asked, and at which address: the answer leaves from there.
struct Datagram {
  Bytes bytes;
  sockaddr_storage from{};
  socklen_t from_size = 0;
  in_pktinfo to4{};
  in6_pktinfo to6{};
  bool v6 = false;
};

class UdpSocket {
 public:
  UdpSocket(const Executor& executor, Fd fd) : descriptor_(executor, fd.release()) {
    const int on = 1;
    // One of the two is not of its family and fails.
    ::setsockopt(descriptor_.native_handle(), IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    ::setsockopt(descriptor_.native_handle(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  }

  bool is_open() const { return descriptor_.is_open(); }
  void close() noexcept {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
  }
  Task<bool> readable() {
    const auto [error] = co_await descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                                                         asio::as_tuple(asio::use_awaitable));
    co_return !error;
  }
  enum class Got : unsigned char { datagram, nothing, dropped, broken };
  Got receive(Datagram& out);
  void send(const Bytes& bytes, const Datagram& query);

 private:
  asio::posix::stream_descriptor descriptor_;
};

// Ends the socket with the coroutine that serves it, whoever still holds it for an answer.
class SocketGuard {
 public:
  explicit SocketGuard(std::shared_ptr<UdpSocket> socket) : socket_(std::move(socket)) {}
  ~SocketGuard() { socket_->close(); }
  SocketGuard(const SocketGuard&) = delete;
  SocketGuard& operator=(const SocketGuard&) = delete;

 private:
  std::shared_ptr<UdpSocket> socket_;
};

bool take_destination(msghdr& message, Datagram& out) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
      std::memcpy(&out.to4, CMSG_DATA(header), sizeof out.to4);
      return true;
    }
    if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
      std::memcpy(&out.to6, CMSG_DATA(header), sizeof out.to6);
      out.v6 = true;
      return true;
    }
  }
  return false;
}

UdpSocket::Got UdpSocket::receive(Datagram& out) {
  std::array<std::byte, dns_limits::query_bytes> buffer;
  alignas(cmsghdr) std::array<char, 256> control{};
  iovec data{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_name = &out.from;
  message.msg_namelen = sizeof out.from;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(descriptor_.native_handle(), &message, MSG_DONTWAIT);
  if (size < 0) {
    const int error = errno;
    if (error == EAGAIN) return Got::nothing;
    return error == EBADF || error == ENOTSOCK ? Got::broken : Got::dropped;
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || !take_destination(message, out)) {
    return Got::dropped;
  }
  out.from_size = message.msg_namelen;
  out.bytes.assign(buffer.begin(), buffer.begin() + size);
  return Got::datagram;
}

void UdpSocket::send(const Bytes& bytes, const Datagram& query) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> control{};
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_storage*>(&query.from);
  message.msg_namelen = query.from_size;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  const std::size_t size = query.v6 ? sizeof query.to6 : sizeof query.to4;
  header->cmsg_level = query.v6 ? IPPROTO_IPV6 : IPPROTO_IP;
  header->cmsg_type = query.v6 ? IPV6_PKTINFO : IP_PKTINFO;
  header->cmsg_len = CMSG_LEN(size);
  message.msg_controllen = CMSG_SPACE(size);
  in_pktinfo from4{};
  from4.ipi_spec_dst = query.to4.ipi_addr;
  std::memcpy(CMSG_DATA(header), query.v6 ? static_cast<const void*>(&query.to6) : &from4, size);
  // An answer that does not go out is one lost: the guest asks again.
  (void)::sendmsg(descriptor_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Task<void> answer_datagram(std::shared_ptr<UdpSocket> socket, std::shared_ptr<DnsService> service,
                           Datagram query) {
  const auto answer = co_await service->answer(std::move(query.bytes), false);
  if (answer && socket->is_open()) socket->send(*answer, query);
}

// What is there, a turn's worth; false: the socket is of no use any more.
bool receive_some(const Executor& executor, const std::shared_ptr<UdpSocket>& socket,
                  const std::shared_ptr<DnsService>& service) {
  for (unsigned i = 0; i < datagrams_a_turn; ++i) {
    Datagram query;
    const auto got = socket->receive(query);
    if (got == UdpSocket::Got::broken) return false;
    if (got == UdpSocket::Got::nothing) break;
    if (got == UdpSocket::Got::datagram) {
      spawn(executor, "dns answer", answer_datagram(socket, service, std::move(query)));
    }
  }
  return true;
}

Task<Result<Bytes>> read_exactly(Stream& from, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t have = 0; have < size;) {
    SPACE_CO_TRY(const std::size_t n, co_await from.read(std::span(bytes).subspan(have)));
    if (n == 0) co_return fail(Code::unavailable, "the end");
    have += n;
  }
  co_return bytes;
}

Task<Result<Bytes>> read_query(Stream& guest) {
  SPACE_CO_TRY(const Bytes length, co_await read_exactly(guest, 2));
  const std::size_t size = WireReader(length).u16();
  if (size < dns_limits::header_bytes || size > dns_limits::query_bytes) {
    co_return fail(Code::invalid_argument, "no question has {} bytes", size);
  }
  co_return co_await read_exactly(guest, size);
}

}  // namespace

Task<void> serve_dns_udp(Fd socket_fd, std::shared_ptr<DnsService> service) {
  const Executor executor = co_await asio::this_coro::executor;
  const auto socket = std::make_shared<UdpSocket>(executor, std::move(socket_fd));
  const SocketGuard guard(socket);
  while (co_await socket->readable()) {
    if (!receive_some(executor, socket, service)) co_return;
    if (service->flooded()) co_await sleep_for(flood_pause);
  }
}

Task<void> serve_dns_tcp(StreamPtr guest, std::shared_ptr<DnsService> service) {
  while (true) {
    auto query = co_await with_deadline(read_query(*guest), Deadline::after(idle_time), "a question");
    if (!query) break;
    const auto answer = co_await service->answer(*std::move(query), true);
    if (!answer) break;
    Bytes framed{std::byte(answer->size() >> 8), std::byte(answer->size() & 0xff)};
    framed.insert(framed.end(), answer->begin(), answer->end());
    const auto sent = co_await with_deadline(guest->write(framed), Deadline::after(idle_time), "an answer");
    if (!sent) break;
  }
  (void)co_await guest->finish();
}

}  // namespace space::netd
