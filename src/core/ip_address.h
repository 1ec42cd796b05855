// IpAddress and Cidr: binary addresses of both families and blocks of them. Pure.
//
// Text is read strictly: a dotted quad of four decimal numbers without leading zeros, or RFC 4291 text
// without brackets and zone. What people and URLs write besides (127.1, 0x7f.1, 2130706433) is no address
// here.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace space {

class IpAddress {
 public:
  constexpr IpAddress() = default;  // 0.0.0.0
  static constexpr IpAddress v4(std::uint32_t value) { return IpAddress(false, 0, value); }
  static constexpr IpAddress v6(std::uint64_t high, std::uint64_t low) { return IpAddress(true, high, low); }
  // Network order: 4 or 16 bytes; nullopt for any other number of them.
  static std::optional<IpAddress> from_bytes(std::span<const std::byte> bytes);
  // AF_INET and AF_INET6. An IPv4-mapped address stays what it is: IPv6.
  static std::optional<IpAddress> from_sockaddr(const sockaddr* address, socklen_t size);
  static std::optional<IpAddress> parse(std::string_view text);

  constexpr bool is_v4() const { return !is_v6_; }
  constexpr std::uint64_t high() const { return high_; }  // 0 for v4
  constexpr std::uint64_t low() const { return low_; }    // v4: the address in host order
  constexpr int bits() const { return is_v6_ ? 128 : 32; }
  std::vector<std::byte> bytes() const;  // network order, 4 or 16
  std::string text() const;              // RFC 5952

  // v4 before v6, then by value.
  constexpr auto operator<=>(const IpAddress&) const = default;

 private:
  constexpr IpAddress(bool is_v6, std::uint64_t high, std::uint64_t low)
      : is_v6_(is_v6), high_(high), low_(low) {}

  bool is_v6_ = false;
  std::uint64_t high_ = 0, low_ = 0;
};

struct SocketAddress {
  sockaddr_storage storage;
  socklen_t size;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SocketAddress to_sockaddr(const IpAddress& address, std::uint16_t port);

// "1.2.3.4:80", "[2606:4700::1]:443".
std::string to_text(const IpAddress& address, std::uint16_t port);

// A block of addresses; no bit is set behind the prefix.
class Cidr {
 public:
  constexpr Cidr() = default;  // 0.0.0.0/32
  // "10.0.0.0/8", "fd00::/8", or an address for itself alone. invalid_argument names the nearest valid form.
  static Result<Cidr> parse(std::string_view text);
  // The block of `bits` leading bits that has `inside`; more bits than the family has are its all.
  static Cidr around(const IpAddress& inside, int bits);
  static Cidr only(const IpAddress& address) { return around(address, address.bits()); }

  const IpAddress& first() const { return first_; }
  IpAddress last() const;
  int prefix() const { return prefix_; }
  bool contains(const IpAddress& address) const;  // false for the other family
  bool contains(const Cidr& other) const;
  std::string text() const;  // without the prefix when it is one address

  // By its first address, of equal ones the larger block first.
  std::strong_ordering operator<=>(const Cidr& other) const;
  bool operator==(const Cidr&) const = default;

 private:
  Cidr(const IpAddress& first, int prefix) : first_(first), prefix_(prefix) {}

  IpAddress first_;
  int prefix_ = 32;
};

// The IPv4 addresses that an IPv6 address can stand for on its way: IPv4-mapped, -compatible and -translated,
// NAT64 (64:ff9b::/96, and 64:ff9b:1::/48 in both forms in use), 6to4, Teredo (server and client), ISATAP.
class EmbeddedV4 {
 public:
  explicit EmbeddedV4(const IpAddress& address);
  const IpAddress* begin() const { return found_.data(); }
  const IpAddress* end() const { return found_.data() + count_; }
  bool empty() const { return count_ == 0; }

 private:
  void add(std::uint64_t value) { found_[count_++] = IpAddress::v4(static_cast<std::uint32_t>(value)); }

  std::array<IpAddress, 4> found_;
  std::size_t count_ = 0;
};

}  // namespace space

template <>
struct std::hash<space::IpAddress> {
  std::size_t operator()(const space::IpAddress& address) const noexcept {
    return std::hash<std::uint64_t>()(address.high() * 0x9e37'79b9'7f4a'7c15 ^ address.low());
  }
};
