// DNS messages on the wire: parsed into values, written from values. Hostile bytes both ways (a guest asks,
// the internet answers). Pure; fuzzed.
//
// A name is text: its labels joined with dots, no dot at the end, the root is "". A label's own dots,
// backslashes and everything that is not printable are escaped, so that two names never have one text and
// canonical_host_name refuses what is no host name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "core/ip_address.h"

namespace space::netd {

// Those that we treat in a way of their own; a message may have any other.
enum class DnsType : std::uint16_t {
  a = 1,
  ns = 2,
  cname = 5,
  soa = 6,
  ptr = 12,
  mx = 15,
  txt = 16,
  aaaa = 28,
  srv = 33,
  dname = 39,
  opt = 41,
  svcb = 64,
  https = 65,
};
inline constexpr std::uint16_t first_meta_type = 128, last_meta_type = 255;  // questions only: ANY, AXFR, …
std::string type_name(DnsType type);                                         // "AAAA", "TYPE99"

inline constexpr std::uint16_t internet_class = 1;

enum class DnsRcode : std::uint16_t {
  no_error = 0,
  format_error = 1,
  server_failure = 2,
  nx_domain = 3,
  not_implemented = 4,
  refused = 5,
  bad_version = 16,
};

// Extended errors (RFC 8914) that we say.
enum class ExtendedError : std::uint16_t {
  other = 0,
  blocked = 15,
  filtered = 17,
  no_reachable_authority = 22
};

struct DnsQuestion {
  std::string name;  // as asked, upper and lower case kept
  DnsType type{};
  std::uint16_t klass = internet_class;
  bool operator==(const DnsQuestion&) const = default;
};

struct DnsRecord {
  std::string name;
  DnsType type{};
  std::uint16_t klass = internet_class;
  std::uint32_t ttl = 0;
  // Names in it are written out in full where the type is one that may compress them.
  Bytes data;
  bool operator==(const DnsRecord&) const = default;
};

struct Edns {
  std::uint16_t udp_size = 0;
  std::uint8_t version = 0;
  bool operator==(const Edns&) const = default;
};

struct DnsMessage {
  std::uint16_t id = 0;
  bool response = false;
  std::uint8_t opcode = 0;
  bool authoritative = false, truncated = false, recursion_desired = false, recursion_available = false;
  DnsRcode rcode = DnsRcode::no_error;
  DnsQuestion question;
  std::vector<DnsRecord> answers, authority;
  std::optional<Edns> edns;
};

namespace dns_limits {
inline constexpr std::size_t header_bytes = 12;
inline constexpr std::size_t name_bytes = 255;  // on the wire
inline constexpr std::size_t query_bytes = 4096;
inline constexpr std::size_t answer_bytes = 4096;
inline constexpr std::size_t records = 128;
inline constexpr std::size_t udp_plain_bytes = 512;  // for who says no size
inline constexpr std::size_t udp_bytes = 1232;       // for who says more
}  // namespace dns_limits

// One question, any records; the additional section is read for EDNS and otherwise dropped. Refused besides
// what is malformed: more than dns_limits::records, bytes after the end, a pointer that points forward, EDNS
// twice.
Result<DnsMessage> parse_dns(std::span<const std::byte> bytes);

// What can be said of a message that does not parse: nullopt where an answer would be wrong (too short, or an
// answer itself).
struct DnsHeader {
  std::uint16_t id = 0;
  std::uint8_t opcode = 0;
  bool recursion_desired = false;
};
std::optional<DnsHeader> query_header(std::span<const std::byte> bytes);

// An address as A or AAAA; nullopt for any other record or a wrong size.
std::optional<IpAddress> address_in(const DnsRecord& record);
DnsRecord address_record(std::string name, const IpAddress& address, std::uint32_t ttl);
// The one name that CNAME, NS, PTR and DNAME hold.
std::optional<std::string> name_in(const DnsRecord& record);

// The name on the wire, not compressed; empty when `text` is no name or too long.
Bytes name_to_wire(std::string_view text);

// Lower-case ASCII; names are compared without case.
std::string dns_lower(std::string_view name);

}  // namespace space::netd
