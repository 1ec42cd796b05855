#include "core/platform_deny.h"

#include <algorithm>
#include <array>

namespace space {
namespace {

constexpr std::array denied_text = {
    // IPv4: "this network", private, shared, loopback, link-local, protocol assignments, documentation, 6to4
    // relays, benchmarks, multicast, reserved with the broadcast address.
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    // IPv6: unspecified, loopback, discard, Teredo, documentation, unique local (with what clouds put there:
    // fd00:ec2::254, fd20:ce::254, fd00:c1::a9fe:a9fe, fd00:42::42), link-local, site-local, multicast.
    "::", "::1", "100::/64", "2001::/32", "2001:db8::/32", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    // Metadata services at public addresses: Azure, Alibaba.
    "168.63.129.16", "100.100.100.200"};

constexpr std::array never_text = {"0.0.0.0/8",    "127.0.0.0/8",        "169.254.0.0/16",  "224.0.0.0/4",
                                   "240.0.0.0/4",  "168.63.129.16",      "100.100.100.200", "::",
                                   "::1",          "fe80::/10",          "ff00::/8",        "fd00:ec2::/32",
                                   "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"};

template <std::size_t N>
CidrIndex index_of(const std::array<const char*, N>& texts) {
  std::vector<Cidr> blocks;
  for (const char* text : texts) blocks.push_back(Cidr::parse(text).value());
  return CidrIndex(std::move(blocks));
}

const CidrIndex& denied() {
  static const CidrIndex index = index_of(denied_text);
  return index;
}

const CidrIndex& never() {
  static const CidrIndex index = index_of(never_text);
  return index;
}

std::optional<Cidr> at(const CidrIndex& index, std::size_t place) {
  if (place == CidrIndex::none) return std::nullopt;
  return index.blocks()[place];
}

std::optional<Cidr> hit_of(const CidrIndex& index, const IpAddress& address) {
  if (const auto block = at(index, index.smallest(address))) return block;
  for (const IpAddress& inner : EmbeddedV4(address))
    if (const auto block = at(index, index.smallest(inner))) return block;
  return std::nullopt;
}

}  // namespace

std::optional<Cidr> PlatformDeny::hit(const IpAddress& address) const {
  if (const auto block = hit_of(denied(), address)) return block;
  return hit_of(own_, address);
}

bool PlatformDeny::may_open(const IpAddress& address, bool named_exactly) const {
  if (hit_of(never(), address)) return false;
  return named_exactly || !hit_of(own_, address);
}

std::optional<Cidr> PlatformDeny::covering(const Cidr& block) {
  return at(denied(), denied().smallest_over(block));
}

std::optional<Cidr> PlatformDeny::never_openable(const Cidr& block) {
  return at(never(), never().smallest_over(block));
}

std::span<const Cidr> PlatformDeny::constants() {
  return denied().blocks();
}

}  // namespace space
