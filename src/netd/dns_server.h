// DNS of one sandbox on its sockets: answers leave from the very address that was asked, whatever resolver
// the guest believes to be there. All on one loop; ended by asio cancellation.
#pragma once

#include <memory>

#include "base/fd.h"
#include "net/stream.h"
#include "netd/dns_service.h"

namespace space::netd {

// A bound, non-blocking UDP socket with IP_PKTINFO or IPV6_RECVPKTINFO. Until the socket fails.
Task<void> serve_dns_udp(Fd socket, std::shared_ptr<DnsService> service);

// One connection of a guest to port 53, until it ends, breaks the protocol, or says nothing for 10 s.
Task<void> serve_dns_tcp(StreamPtr guest, std::shared_ptr<DnsService> service);

}  // namespace space::netd
