#include "priv/slot_sockets.h"

#include <linux/in6.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace space::priv {
namespace {

constexpr std::uint16_t stream_port = 4000, name_port = 53;
constexpr int backlog = 1024;

struct Option {
  int level, name;
};

Result<void> bind_to(const Fd& socket, int family, std::uint16_t port) {
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  const bool is_v4 = family == AF_INET;
  const auto* address = is_v4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
  if (::bind(socket.get(), address, is_v4 ? sizeof v4 : sizeof v6) == 0) return {};
  if (errno == EADDRINUSE) return fail(Code::conflict, "the sockets of the slot are open");
  return fail_errno(errno, "bind a socket of the slot");
}

Result<Fd> open_socket(int family, int type) {
  std::vector<Option> options;
  const bool is_v4 = family == AF_INET, is_datagram = type == SOCK_DGRAM;
  // Connections that linger do not count as open.
  if (!is_datagram) options.push_back({SOL_SOCKET, SO_REUSEADDR});
  if (is_v4)
    options.push_back({IPPROTO_IP, IP_TRANSPARENT});
  else
    options.insert(options.end(), {{IPPROTO_IPV6, IPV6_V6ONLY}, {IPPROTO_IPV6, IPV6_TRANSPARENT}});
  if (is_datagram && is_v4)
    options.insert(options.end(), {{IPPROTO_IP, IP_RECVORIGDSTADDR}, {IPPROTO_IP, IP_PKTINFO}});
  if (is_datagram && !is_v4)
    options.insert(options.end(), {{IPPROTO_IPV6, IPV6_RECVORIGDSTADDR}, {IPPROTO_IPV6, IPV6_RECVPKTINFO}});
  Fd socket(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, "open a socket of the slot");
  constexpr int on = 1;
  for (const auto& [level, name] : options)
    if (::setsockopt(socket.get(), level, name, &on, sizeof on) != 0)
      return fail_errno(errno, "set up a socket of the slot");
  SPACE_CHECK(bind_to(socket, family, is_datagram ? name_port : stream_port));
  if (!is_datagram && ::listen(socket.get(), backlog) != 0) return fail_errno(errno, "listen in the slot");
  return socket;
}

}  // namespace

Result<SlotSockets> open_slot_sockets() {
  SlotSockets sockets;
  SPACE_TRY(sockets[0], open_socket(AF_INET, SOCK_STREAM));
  SPACE_TRY(sockets[1], open_socket(AF_INET6, SOCK_STREAM));
  SPACE_TRY(sockets[2], open_socket(AF_INET, SOCK_DGRAM));
  SPACE_TRY(sockets[3], open_socket(AF_INET6, SOCK_DGRAM));
  return sockets;
}

}  // namespace space::priv
