#include "netd/reverse_name.h"

#include <charconv>

namespace space::netd {

namespace {

constexpr std::string_view v4_zone = ".in-addr.arpa", v6_zone = ".ip6.arpa";

// Takes the last label of `name` as a number up to `most`.
std::optional<std::uint64_t> take_number(std::string_view& name, int base, std::uint64_t most) {
  const std::size_t dot = name.rfind('.');
  const std::string_view label = dot == std::string_view::npos ? name : name.substr(dot + 1);
  name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value, base);
  if (error != std::errc() || end != label.data() + label.size() || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Cidr> block_of_reverse_name(std::string_view canonical) {
  const bool v4 = canonical.ends_with(v4_zone);
  if (!v4 && !canonical.ends_with(v6_zone)) return std::nullopt;
  canonical.remove_suffix(v4 ? v4_zone.size() : v6_zone.size());
  const int label_bits = v4 ? 8 : 4, all_bits = v4 ? 32 : 128;
  std::uint64_t high = 0, low = 0;
  int bits = 0;
  while (!canonical.empty()) {
    const auto number = take_number(canonical, v4 ? 10 : 16, v4 ? 255 : 15);
    if (!number || bits == all_bits) return std::nullopt;
    const int shift = all_bits - bits - label_bits;
    (shift >= 64 ? high : low) |= *number << (shift % 64);
    bits += label_bits;
  }
  const IpAddress address = v4 ? IpAddress::v4(static_cast<std::uint32_t>(low)) : IpAddress::v6(high, low);
  return Cidr::around(address, bits);
}

}  // namespace space::netd
