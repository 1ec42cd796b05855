#include "guest/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace space::guest {

namespace {

constexpr const char* ethernet = "eth0";
constexpr const char* address_v4 = "10.77.0.2";
constexpr const char* netmask_v4 = "255.255.255.252";
constexpr const char* gateway_v4 = "10.77.0.1";
constexpr const char* address_v6 = "fd53:5041:4345::2";
constexpr const char* gateway_v6 = "fd53:5041:4345::1";
constexpr unsigned prefix_v6 = 126;

// struct in6_ifreq of <linux/ipv6.h>, which cannot be included beside <netinet/in.h>.
struct Ipv6Request {
  in6_addr address;
  std::uint32_t prefix;
  int interface;
};

ifreq request_for(const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  return request;
}

sockaddr socket_address(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &address.sin_addr);
  sockaddr result{};
  std::memcpy(&result, &address, sizeof address);
  return result;
}

Result<Fd> control_socket(int family) {
  Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "open a socket");
  return fd;
}

Result<void> set_up(int socket, const char* interface) {
  ifreq request = request_for(interface);
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0)
    return fail_errno(errno, fmt::format("find {}", interface));
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  if (::ioctl(socket, SIOCSIFFLAGS, &request) != 0)
    return fail_errno(errno, fmt::format("bring {} up", interface));
  return {};
}

Result<void> configure_v4(int socket) {
  ifreq request = request_for(ethernet);
  request.ifr_addr = socket_address(address_v4);
  if (::ioctl(socket, SIOCSIFADDR, &request) != 0) return fail_errno(errno, "set the IPv4 address");
  request.ifr_addr = socket_address(netmask_v4);
  if (::ioctl(socket, SIOCSIFNETMASK, &request) != 0) return fail_errno(errno, "set the IPv4 netmask");
  rtentry route{};
  route.rt_dst = socket_address("0.0.0.0");
  route.rt_genmask = socket_address("0.0.0.0");
  route.rt_gateway = socket_address(gateway_v4);
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  if (::ioctl(socket, SIOCADDRT, &route) != 0 && errno != EEXIST)
    return fail_errno(errno, "set the IPv4 route");
  return {};
}

Result<void> configure_v6() {
  SPACE_TRY(const Fd socket, control_socket(AF_INET6));
  const int index = static_cast<int>(::if_nametoindex(ethernet));
  Ipv6Request address{.address = {}, .prefix = prefix_v6, .interface = index};
  ::inet_pton(AF_INET6, address_v6, &address.address);
  if (::ioctl(socket.get(), SIOCSIFADDR, &address) != 0 && errno != EEXIST)
    return fail_errno(errno, "set the IPv6 address");
  in6_rtmsg route{};
  ::inet_pton(AF_INET6, gateway_v6, &route.rtmsg_gateway);
  route.rtmsg_flags = RTF_UP | RTF_GATEWAY;
  route.rtmsg_metric = 1024;
  route.rtmsg_ifindex = index;
  if (::ioctl(socket.get(), SIOCADDRT, &route) != 0 && errno != EEXIST)
    return fail_errno(errno, "set the IPv6 route");
  return {};
}

// Nobody else can have our address, so the second's wait for an objection is saved. Absent without IPv6.
void skip_duplicate_detection() {
  const Fd fd(::open("/proc/sys/net/ipv6/conf/eth0/accept_dad", O_WRONLY | O_CLOEXEC));
  if (fd) [[maybe_unused]]
    const auto ignored = ::write(fd.get(), "0", 1);
}

}  // namespace

Result<void> bring_up_loopback() {
  SPACE_TRY(const Fd socket, control_socket(AF_INET));
  return set_up(socket.get(), "lo");
}

Result<void> bring_up_ethernet() {
  SPACE_TRY(const Fd socket, control_socket(AF_INET));
  skip_duplicate_detection();
  SPACE_CHECK(set_up(socket.get(), ethernet));
  SPACE_CHECK(configure_v4(socket.get()));
  return configure_v6();
}

}  // namespace space::guest
