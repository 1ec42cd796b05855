// Any network, any other socket.
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

template <long domain, long type>
const char* new_socket() {
  return outcome(call(SYS_socket, domain, type, 0));
}
const char* socket_pair() {
  int ends[2];
  return outcome(call(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, address_of(ends)));
}
// On the one socket it has, which listens: EINVAL or EISCONN would say that the call itself is let through.
template <long number>
const char* unix_address() {
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, "\0space-probe", 12);
  return outcome(call(number, given.qmp, address_of(&address), sizeof(sa_family_t) + 12));
}
// A whole attempt at the network; the first refusal is the outcome.
const char* reach_loopback() {
  const long fd = call(SYS_socket, AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return outcome(fd);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  return outcome(call(SYS_connect, fd, address_of(&address), sizeof address));
}
const char* reach_abstract() {
  const long fd = call(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return outcome(fd);
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, "\0space-probe", 12);
  return outcome(call(SYS_connect, fd, address_of(&address), sizeof(sa_family_t) + 12));
}
template <long request>
const char* control_socket() {
  char space[512] = {};
  return outcome(call(SYS_ioctl, given.qmp, request, address_of(space)));
}
const char* send_elsewhere() {
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, "\0space-probe", 12);
  return outcome(call(SYS_sendto, given.qmp, address_of("x"), 1, MSG_NOSIGNAL, address_of(&address),
                      sizeof(sa_family_t) + 12));
}
template <long number>
const char* accept_none() {
  call(SYS_fcntl, given.qmp, 4 /* F_SETFL */, 04000 /* O_NONBLOCK */);
  return outcome(call(number, given.qmp, 0, 0, 0));
}
const char* listen_on_its_own() {
  return outcome(call(SYS_listen, given.qmp, 1));
}

constexpr Row rows[] = {
    {"socket_unix", new_socket<AF_UNIX, SOCK_STREAM>},
    {"socket_inet", new_socket<AF_INET, SOCK_STREAM>},
    {"socket_inet_udp", new_socket<AF_INET, SOCK_DGRAM>},
    {"socket_inet6", new_socket<AF_INET6, SOCK_STREAM>},
    {"socket_netlink", new_socket<AF_NETLINK, SOCK_RAW>},
    {"socket_vsock", new_socket<AF_VSOCK, SOCK_STREAM>},
    {"socket_packet", new_socket<AF_PACKET, SOCK_RAW>},
    {"socket_alg", new_socket<AF_ALG, SOCK_SEQPACKET>},
    {"socket_raw", new_socket<AF_INET, SOCK_RAW>},
    {"socketpair", socket_pair},
    {"connect", unix_address<SYS_connect>},
    {"bind", unix_address<SYS_bind>},
    {"connect_loopback", reach_loopback},
    {"connect_abstract", reach_abstract},
    {"send_to_address", send_elsewhere},
    {"ioctl_interfaces", control_socket<SIOCGIFCONF>},
    {"ioctl_network_namespace", control_socket<SIOCGSKNS>},
    {"accept", accept_none<SYS_accept>},
    {"accept4_none_waits", accept_none<SYS_accept4>},
    {"listen", listen_on_its_own},
};

}  // namespace

std::span<const Row> socket_rows() {
  return rows;
}

}  // namespace space::jail
