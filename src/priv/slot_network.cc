#include "priv/slot_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <memory>
#include <span>

#include "base/bytes.h"

namespace space::priv {
namespace {

constexpr std::uint32_t gateway_mark = 1, gateway_table = 100, gateway_priority = 100;
// The same in every slot: a restored guest still knows its gateway by it.
constexpr std::array<unsigned char, 6> gateway_mac{0x02, 0x53, 0x50, 0x41, 0x43, 0x01};
constexpr std::array<unsigned char, 6> guest_mac{0x02, 0x53, 0x50, 0x41, 0x43, 0x45};

struct Family {
  unsigned char number;
  const char *gateway, *guest;
  unsigned char prefix;
};
constexpr Family families[] = {{AF_INET, "10.77.0.1", "10.77.0.2", 30},
                               {AF_INET6, "fd53:5041:4345::1", "fd53:5041:4345::2", 126}};

// One message of rtnetlink: a header of its kind and attributes.
class Message {
 public:
  template <class Header>
  Message(unsigned short type, const Header& header) {
    head_ = {.nlmsg_len = 0, .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE};
    std::memcpy(bytes_.data() + NLMSG_HDRLEN, &header, sizeof header);
    size_ = NLMSG_SPACE(sizeof header);
  }
  template <std::integral Value>
  Message& with(unsigned short type, const Value& value) {
    return with(type, std::as_bytes(std::span(&value, 1)));
  }
  Message& with(unsigned short type, std::span<const std::byte> value) {
    const rtattr attribute{static_cast<unsigned short>(RTA_LENGTH(value.size())), type};
    std::memcpy(bytes_.data() + size_, &attribute, sizeof attribute);
    std::memcpy(bytes_.data() + size_ + RTA_LENGTH(0), value.data(), value.size());
    size_ += RTA_SPACE(value.size());
    return *this;
  }
  std::span<const std::byte> finished(unsigned short flags) {
    head_.nlmsg_len = static_cast<std::uint32_t>(size_);
    head_.nlmsg_flags = static_cast<unsigned short>(head_.nlmsg_flags | flags);
    std::memcpy(bytes_.data(), &head_, sizeof head_);
    return std::span(bytes_).first(size_);
  }

 private:
  nlmsghdr head_{};
  std::array<std::byte, 256> bytes_{};  // far above what any of ours takes
  std::size_t size_ = 0;
};

// Carries it out; false when the thing was there already.
Result<bool> add(const Fd& netlink, Message message, unsigned short flags = NLM_F_EXCL) {
  const auto bytes = message.finished(flags);
  if (::send(netlink.get(), bytes.data(), bytes.size(), 0) < 0) return fail_errno(errno, "send to rtnetlink");
  alignas(nlmsghdr) std::array<std::byte, 1024> answer;
  const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), 0);
  if (got < static_cast<ssize_t>(NLMSG_SPACE(sizeof(nlmsgerr))))
    return fail(Code::internal, "rtnetlink did not answer");
  nlmsgerr result{};
  std::memcpy(&result, answer.data() + NLMSG_HDRLEN, sizeof result);
  if (result.error == -EEXIST) return false;
  if (result.error != 0) return fail_errno(-result.error, "set up the network of a slot");
  return true;
}

std::span<const std::byte> bytes_of(const Family& family, const char* text, in6_addr& storage) {
  ::inet_pton(family.number, text, &storage);
  return std::as_bytes(std::span(&storage, 1))
      .first(family.number == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
}

Result<bool> complete(const Fd& netlink, const Family& family, unsigned tap, unsigned lo) {
  in6_addr storage{};
  const auto gateway = bytes_of(family, family.gateway, storage);
  SPACE_TRY(bool added, add(netlink, Message(RTM_NEWADDR, ifaddrmsg{.ifa_family = family.number,
                                                                    .ifa_prefixlen = family.prefix,
                                                                    .ifa_flags = IFA_F_NODAD,
                                                                    .ifa_index = tap})
                                         .with(IFA_LOCAL, gateway)
                                         .with(IFA_ADDRESS, gateway)));
  const auto guest = bytes_of(family, family.guest, storage);
  SPACE_CHECK(add(netlink,
                  Message(RTM_NEWNEIGH, ndmsg{.ndm_family = family.number,
                                              .ndm_ifindex = static_cast<int>(tap),
                                              .ndm_state = NUD_PERMANENT})
                      .with(NDA_DST, guest)
                      .with(NDA_LLADDR, std::as_bytes(std::span(guest_mac))),
                  NLM_F_REPLACE));
  SPACE_TRY(const bool ruled, add(netlink, Message(RTM_NEWRULE, fib_rule_hdr{.family = family.number,
                                                                             .table = gateway_table,
                                                                             .action = FR_ACT_TO_TBL})
                                               .with(FRA_PRIORITY, gateway_priority)
                                               .with(FRA_FWMARK, gateway_mark)));
  SPACE_TRY(const bool routed, add(netlink, Message(RTM_NEWROUTE, rtmsg{.rtm_family = family.number,
                                                                        .rtm_table = gateway_table,
                                                                        .rtm_protocol = RTPROT_STATIC,
                                                                        .rtm_scope = RT_SCOPE_HOST,
                                                                        .rtm_type = RTN_LOCAL})
                                                .with(RTA_OIF, lo)));
  return added || ruled || routed;
}

ifreq request_for(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

Result<Fd> any_socket() {
  Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, "open a socket");
  return socket;
}

// False when it is up already.
Result<bool> bring_up(const Fd& socket, const char* device) {
  ifreq request = request_for(device);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return fail_errno(errno, "read flags of a device");
  if ((request.ifr_flags & IFF_UP) != 0) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return fail_errno(errno, "bring a device up");
  return true;
}

// False when it has it already; a new one takes the neighbours away.
Result<bool> address_tap(const Fd& socket) {
  ifreq request = request_for(slot_tap);
  const bool known = ::ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0;
  if (known && std::memcmp(request.ifr_hwaddr.sa_data, gateway_mac.data(), gateway_mac.size()) == 0)
    return false;
  std::memcpy(request.ifr_hwaddr.sa_data, gateway_mac.data(), gateway_mac.size());
  if (!known || ::ioctl(socket.get(), SIOCSIFHWADDR, &request) != 0)
    return fail_errno(errno, "address the tap");
  return true;
}

}  // namespace

Result<Fd> attach_tap() {
  SPACE_TRY(Fd tun, open_fd("/dev/net/tun", O_RDWR | O_NONBLOCK));
  ifreq request = request_for(slot_tap);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(tun.get(), TUNSETIFF, &request) != 0) return fail_errno(errno, "attach the tap");
  return tun;
}

Result<void> set_slot_switches() {
  constexpr std::pair<const char*, const char*> switches[] = {
      {"ipv4/ip_forward", "0"},
      {"ipv4/conf/default/arp_ignore", "1"},     // answers for its own address only
      {"ipv4/icmp_ratemask", "0"},               // a refusal is told at once; the rules limit how many
      {"ipv4/ip_unprivileged_port_start", "0"},  // for the sockets of a slot, in which nobody else lives
      {"ipv6/conf/default/addr_gen_mode", "1"},  // no address of the kernel's own making
      {"ipv6/conf/default/accept_ra", "0"},
      {"ipv6/conf/default/accept_redirects", "0"},
      {"ipv6/conf/all/forwarding", "0"},
      {"ipv6/icmp/ratemask", "127"},  // a kind that there is not
  };
  for (const auto& [name, value] : switches) {
    const auto file = open_fd(std::string("/proc/sys/net/") + name, O_WRONLY);
    if (!file && file.error().code == Code::not_found) continue;  // a kernel without it, or without IPv6
    if (!file) return std::unexpected(file.error());
    SPACE_CHECK(write_all(file->get(), as_bytes(value)));
  }
  return {};
}

Result<bool> complete_slot_network() {
  SPACE_TRY(const Fd socket, any_socket());
  SPACE_TRY(const bool lo_raised, bring_up(socket, "lo"));
  SPACE_TRY(const bool tap_addressed, address_tap(socket));
  SPACE_TRY(const bool tap_raised, bring_up(socket, slot_tap));
  const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink) return fail_errno(errno, "open rtnetlink");
  bool added = lo_raised || tap_addressed || tap_raised;
  for (const Family& family : families) {
    SPACE_TRY(const bool some, complete(netlink, family, ::if_nametoindex(slot_tap), ::if_nametoindex("lo")));
    added = added || some;
  }
  return added;
}

Result<void> require_no_way_out() {
  SPACE_TRY(const Fd socket, any_socket());
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> devices(::if_nameindex(),
                                                                                     ::if_freenameindex);
  if (devices == nullptr) return fail_errno(errno, "list the devices of a slot");
  bool has_tap = false;
  for (const struct if_nameindex* device = devices.get(); device->if_index != 0; ++device) {
    const std::string_view name = device->if_name;
    has_tap = has_tap || name == slot_tap;
    ifreq request = request_for(device->if_name);
    const bool is_up =
        ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
    if (is_up && name != slot_tap && name != "lo")
      return fail(Code::conflict, "the slot has a device that is not its own");
  }
  return has_tap ? Result<void>{} : fail(Code::conflict, "the slot has lost its tap");
}

}  // namespace space::priv
