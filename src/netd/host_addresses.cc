#include "netd/host_addresses.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/fd.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

constexpr std::size_t buffer_bytes = 32 * 1024;  // the kernel's largest piece of a dump

Result<Fd> netlink_socket(std::uint32_t groups, int flags) {
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE));
  if (!fd) return fail_errno(errno, "netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "bind netlink socket");
  return fd;
}

// The address in one message about an interface's.
void take_address(const nlmsghdr& header, std::vector<Cidr>& out) {
  const auto* message = static_cast<const ifaddrmsg*>(NLMSG_DATA(&header));
  int left = static_cast<int>(IFA_PAYLOAD(&header));
  for (const rtattr* attribute = IFA_RTA(message); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left)) {
    // On a point-to-point link IFA_ADDRESS is the other side's; both are the node's affair.
    if (attribute->rta_type != IFA_ADDRESS && attribute->rta_type != IFA_LOCAL) continue;
    const auto* data = static_cast<const std::byte*>(RTA_DATA(attribute));
    if (const auto address = IpAddress::from_bytes({data, RTA_PAYLOAD(attribute)}))
      out.push_back(Cidr::only(*address));
  }
}

}  // namespace

Result<HostAddresses> HostAddresses::open() {
  SPACE_TRY(Fd questions, netlink_socket(0, 0));
  SPACE_TRY(Fd changes, netlink_socket(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, SOCK_NONBLOCK));
  return HostAddresses(std::move(questions), std::move(changes));
}

Result<std::vector<Cidr>> HostAddresses::read() {
  struct {
    nlmsghdr header;
    ifaddrmsg body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.header.nlmsg_seq = ++sequence_;
  request.body.ifa_family = AF_UNSPEC;
  if (::send(questions_.get(), &request, sizeof request, 0) < 0)
    return fail_errno(errno, "ask for addresses");
  std::vector<Cidr> addresses;
  alignas(nlmsghdr) std::array<std::byte, buffer_bytes> buffer;
  while (true) {
    const ssize_t n = ::recv(questions_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read addresses");
    auto left = static_cast<unsigned>(n);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_seq != sequence_) continue;
      if (header->nlmsg_type == NLMSG_DONE) return addresses;
      if (header->nlmsg_type == NLMSG_ERROR) return fail(Code::internal, "the kernel lists no addresses");
      if (header->nlmsg_type == RTM_NEWADDR) take_address(*header, addresses);
    }
  }
}

Task<Result<void>> HostAddresses::wait_for_change() {
  asio::posix::stream_descriptor changes(co_await asio::this_coro::executor, changes_.get());
  const auto [error] = co_await changes.async_wait(asio::posix::stream_descriptor::wait_read,
                                                   asio::as_tuple(asio::use_awaitable));
  changes.release();
  if (error) co_return fail(Code::internal, "wait for addresses: {}", error.message());
  // What happened is not looked at: all is read anew. ENOBUFS: more happened than the socket holds.
  std::array<std::byte, 4096> dropped;
  while (::recv(changes_.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) >= 0 || errno == ENOBUFS) {
  }
  co_return Result<void>();
}

}  // namespace space::netd
