// Host names: one canonical form, used by DNS, SNI, Host, policy and everything else that compares names.
// Pure.
//
// Canonical: A-labels (IDNA2008, not transitional), lower case, no trailing dot, 1-253 bytes, labels of 1-63
// [a-z0-9_-]. A name whose last label is a number in any notation is none: resolvers of C libraries read it
// as an address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/ip_address.h"

namespace space {

// Strips one trailing dot and converts. invalid_argument says what is wrong, quoting only printable bytes.
// Addresses are refused: they match no rule for names.
Result<std::string> canonical_host_name(std::string_view text);
// The same for what stands in a DNS question or a server name of TLS: those are ASCII, so a U-label is
// refused.
Result<std::string> wire_host_name(std::string_view text);

// Of a URL or a Host field: a name, or an address (IPv6 in brackets).
struct Host {
  std::string name;                  // canonical; "" when it is an address
  std::optional<IpAddress> address;  // set when it is one
  std::string text() const;          // IPv6 in brackets
};
Result<Host> parse_host(std::string_view text);

struct HostPort {
  Host host;
  std::optional<std::uint16_t> port;  // as given, 1-65535
};
// "name", "name:port", "1.2.3.4:80", "[::1]:80"; no user information, no space, nothing else.
Result<HostPort> parse_authority(std::string_view text);

// What a rule says of names.
struct HostPattern {
  enum class Kind : unsigned char {
    exact,           // "example.com"
    below,           // "*.example.com": at least one label before it, not the apex
    apex_and_below,  // "+.example.com"
    any,             // "*"
  };
  Kind kind = Kind::exact;
  std::string name;  // canonical; "" for any

  static Result<HostPattern> parse(std::string_view text);
  std::string text() const;
  bool matches(std::string_view canonical) const;
  // Every name that `other` matches.
  bool covers(const HostPattern& other) const;
  auto operator<=>(const HostPattern&) const = default;
};

// Anyone can register a name below it ("com", "co.uk"), or it is a top-level domain that nobody knows.
bool is_public_suffix(const std::string& canonical);

// For messages and logs: printable ASCII stays, the rest is escaped, at most 80 bytes.
std::string quoted(std::string_view hostile);

}  // namespace space
