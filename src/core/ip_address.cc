#include "core/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/host_name.h"

namespace space {
namespace {

constexpr std::uint64_t read_be(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | static_cast<std::uint64_t>(byte);
  return value;
}

// The `bits` leading ones of 64; out of range is none or all.
constexpr std::uint64_t leading(int bits) {
  if (bits <= 0) return 0;
  return bits >= 64 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} >> bits);
}

struct Mask {
  std::uint64_t high, low;
};

constexpr Mask mask_of(const IpAddress& address, int prefix) {
  if (address.is_v4()) return {0, leading(prefix + 32) & 0xffffffff};
  return {leading(prefix), leading(prefix - 64)};
}

constexpr IpAddress with(const IpAddress& like, std::uint64_t high, std::uint64_t low) {
  return like.is_v4() ? IpAddress::v4(static_cast<std::uint32_t>(low)) : IpAddress::v6(high, low);
}

std::optional<int> parse_prefix(std::string_view text) {
  int prefix = 0;
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), prefix);
  if (error != std::errc() || end != text.data() + text.size() || prefix < 0) return std::nullopt;
  return prefix;
}

bool is_mapped(const IpAddress& address) {
  return !address.is_v4() && address.high() == 0 && address.low() >> 32 == 0xffff;
}

}  // namespace

std::optional<IpAddress> IpAddress::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() == 4) return v4(static_cast<std::uint32_t>(read_be(bytes)));
  if (bytes.size() == 16) return v6(read_be(bytes.first(8)), read_be(bytes.last(8)));
  return std::nullopt;
}

std::optional<IpAddress> IpAddress::from_sockaddr(const sockaddr* address, socklen_t size) {
  if (address == nullptr || size < sizeof(address->sa_family)) return std::nullopt;
  sockaddr_storage storage{};
  std::memcpy(&storage, address, std::min<std::size_t>(size, sizeof storage));
  if (storage.ss_family == AF_INET && size >= sizeof(sockaddr_in))
    return from_bytes(std::as_bytes(std::span(&reinterpret_cast<sockaddr_in&>(storage).sin_addr, 1)));
  if (storage.ss_family == AF_INET6 && size >= sizeof(sockaddr_in6))
    return from_bytes(std::as_bytes(std::span(&reinterpret_cast<sockaddr_in6&>(storage).sin6_addr, 1)));
  return std::nullopt;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.size() >= INET6_ADDRSTRLEN || text.contains('\0')) return std::nullopt;
  const std::string terminated(text);
  in6_addr parsed;
  const auto bytes = std::as_bytes(std::span(&parsed, 1));
  if (::inet_pton(AF_INET, terminated.c_str(), &parsed) == 1) return from_bytes(bytes.first(4));
  if (::inet_pton(AF_INET6, terminated.c_str(), &parsed) == 1) return from_bytes(bytes);
  return std::nullopt;
}

std::vector<std::byte> IpAddress::bytes() const {
  std::vector<std::byte> out;
  const auto append = [&out](std::uint64_t value, int from) {
    for (int shift = from; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(value >> shift));
  };
  if (is_v6_) append(high_, 56);
  append(low_, is_v6_ ? 56 : 24);
  return out;
}

std::string IpAddress::text() const {
  char buffer[INET6_ADDRSTRLEN];
  const auto network = bytes();
  ::inet_ntop(is_v6_ ? AF_INET6 : AF_INET, network.data(), buffer, sizeof buffer);
  return buffer;
}

SocketAddress to_sockaddr(const IpAddress& address, std::uint16_t port) {
  SocketAddress out{};
  const auto network = address.bytes();
  if (address.is_v4()) {
    auto& in = reinterpret_cast<sockaddr_in&>(out.storage);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, network.data(), network.size());
    out.size = sizeof in;
  } else {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(out.storage);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::memcpy(&in6.sin6_addr, network.data(), network.size());
    out.size = sizeof in6;
  }
  return out;
}

std::string to_text(const IpAddress& address, std::uint16_t port) {
  return address.is_v4() ? fmt::format("{}:{}", address.text(), port)
                         : fmt::format("[{}]:{}", address.text(), port);
}

Result<Cidr> Cidr::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address)
    return fail(Code::invalid_argument,
                "'{}' is no block of addresses; one is written like '192.0.2.0/24', '2001:db8::/32' or "
                "'192.0.2.1'",
                quoted(text));
  int prefix = address->bits();
  if (slash != std::string_view::npos) {
    const auto given = parse_prefix(text.substr(slash + 1));
    if (!given || *given > address->bits())
      return fail(Code::invalid_argument, "'{}' has no prefix length of 0 to {}; for one address write '{}'",
                  quoted(text), address->bits(), address->text());
    prefix = *given;
  }
  const Cidr block = around(*address, prefix);
  if (block.first() != *address)
    return fail(Code::invalid_argument, "'{}' has bits set behind its prefix; write '{}' or '{}'",
                quoted(text), block.text(), address->text());
  if (is_mapped(*address) && prefix >= 96) {
    const IpAddress inner = IpAddress::v4(static_cast<std::uint32_t>(address->low()));
    return fail(Code::invalid_argument, "'{}' is IPv4 written as IPv6; write '{}'", quoted(text),
                around(inner, prefix - 96).text());
  }
  return block;
}

Cidr Cidr::around(const IpAddress& inside, int bits) {
  const int prefix = std::clamp(bits, 0, inside.bits());
  const Mask mask = mask_of(inside, prefix);
  return {with(inside, inside.high() & mask.high, inside.low() & mask.low), prefix};
}

IpAddress Cidr::last() const {
  const Mask mask = mask_of(first_, prefix_);
  return with(first_, first_.high() | ~mask.high, first_.low() | ~mask.low);
}

bool Cidr::contains(const IpAddress& address) const {
  if (address.is_v4() != first_.is_v4()) return false;
  const Mask mask = mask_of(first_, prefix_);
  return (address.high() & mask.high) == first_.high() && (address.low() & mask.low) == first_.low();
}

bool Cidr::contains(const Cidr& other) const {
  return prefix_ <= other.prefix_ && contains(other.first_);
}

std::string Cidr::text() const {
  return prefix_ == first_.bits() ? first_.text() : fmt::format("{}/{}", first_.text(), prefix_);
}

std::strong_ordering Cidr::operator<=>(const Cidr& other) const {
  if (const auto order = first_ <=> other.first_; order != 0) return order;
  return prefix_ <=> other.prefix_;
}

EmbeddedV4::EmbeddedV4(const IpAddress& address) {
  if (address.is_v4()) return;
  const std::uint64_t high = address.high(), low = address.low();
  const bool within_32_bits = high == 0 && low >> 32 == 0;
  if (within_32_bits || is_mapped(address)) add(low);             // ::a.b.c.d, ::ffff:a.b.c.d
  if (high == 0 && low >> 32 == 0xffff'0000) add(low);            // ::ffff:0:a.b.c.d
  if (high == 0x0064'ff9b'0000'0000 && low >> 32 == 0) add(low);  // 64:ff9b::/96
  if (high >> 16 == 0x0064'ff9b'0001) {                           // 64:ff9b:1::/48
    add(low);                                                     // as a /96 of it
    add((high & 0xffff) << 16 | (low >> 40 & 0xffff));            // RFC 6052, around the u octet
  }
  if (high >> 48 == 0x2002) add(high >> 16);  // 6to4
  if (high >> 32 == 0x2001'0000) {            // Teredo
    add(high);
    add(~low);
  }
  if ((low >> 32 & ~std::uint64_t{0x0200'0000}) == 0x5efe) add(low);  // ISATAP
}

}  // namespace space
