#include "net/loopback.h"

#include <netinet/in.h>

#include <cstring>

namespace space {

bool is_loopback(const sockaddr_storage& address) {
  constexpr unsigned char net_127 = 127;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == net_127;
  }
  if (address.ss_family != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == net_127);
}

}  // namespace space
