// EgressPolicy: where a sandbox may connect to. A value; core/egress_matcher.h decides by it. Pure.
//
// Order: platform deny set (unless "internal" opens it), deny, allow, mode. With allow_first, as E2B has it:
// allow before deny.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "core/host_name.h"
#include "core/ip_address.h"

namespace space {

enum class EgressMode : unsigned char { allow_all, restricted, deny_all };
// Of a rule: what it is for. Of a flow: what it is; `any` when that is not known yet.
enum class EgressProtocol : unsigned char { any, tls, http, tcp };
enum class EgressDns : unsigned char { pinned, synthetic };

struct PortRange {
  std::uint16_t first = 0, last = 0;  // inclusive, 1-65535
  auto operator<=>(const PortRange&) const = default;
};

struct EgressRule {
  std::variant<HostPattern, Cidr> target;
  std::vector<PortRange> ports;  // ordered, apart; empty: what ports_of says
  EgressProtocol protocol = EgressProtocol::any;
  // Of requests in plain HTTP; empty: all. A path matches itself and, ending in "*", all it begins.
  std::vector<std::string> methods, paths;

  const HostPattern* host() const { return std::get_if<HostPattern>(&target); }
  const Cidr* cidr() const { return std::get_if<Cidr>(&target); }
  bool by_request() const { return !methods.empty() || !paths.empty(); }
  std::string text() const;  // "*.example.com:443,8000-8999 tls"
  bool operator==(const EgressRule&) const = default;
};

struct EgressLimits {
  std::int64_t conns = 1024;  // open at once
  std::int64_t new_conns_per_s = 100;
  std::int64_t bytes_per_s = 0;  // each way; 0: no limit
  std::int64_t dns_qps = 50;
  std::int64_t bytes_total = 0;  // both ways, since its creation; 0: no limit
  bool operator==(const EgressLimits&) const = default;
};

struct EgressPolicy {
  EgressMode mode = EgressMode::deny_all;
  std::vector<EgressRule> allow, deny;
  std::vector<EgressRule> internal;  // exceptions to the platform deny set; they allow nothing by themselves
  bool allow_first = false;
  // A name counts only at addresses that the sandbox was told for it. Off: the gateway goes to the name,
  // whatever address was dialled.
  bool pinned = true;
  EgressDns dns = EgressDns::pinned;
  EgressLimits limits;
  bool operator==(const EgressPolicy&) const = default;
};

namespace egress_limits {
inline constexpr std::size_t rules_max = 10'000;   // of all lists
inline constexpr std::size_t ports_max = 64;       // ranges of a rule
inline constexpr std::size_t ranges_max = 20'000;  // of ports, of all rules
inline constexpr std::size_t methods_max = 16;
inline constexpr std::size_t paths_max = 64;
inline constexpr std::size_t path_bytes_max = 1024;
inline constexpr std::size_t paths_bytes_max = std::size_t{256} << 10;  // of all rules
inline constexpr std::size_t request_rules_max = 256;                   // of one target
}  // namespace egress_limits

enum class EgressList : unsigned char { allow, deny, internal };
// Those it names. Without: of a name that is allowed, 80 and 443 (443 for TLS, 80 for HTTP); of anything else
// all, but allowing port 25 takes naming it.
std::vector<PortRange> ports_of(const EgressRule& rule, EgressList list);
// "443" or "8000-8999".
Result<PortRange> parse_port_range(std::string_view text);
// Ordered, what overlaps or touches joined.
std::vector<PortRange> joined(std::vector<PortRange> ranges);

// What whoever writes a policy may.
struct EgressRights {
  bool may_internal = false;  // an organisation's administrator
  bool force = false;         // broad wildcards
};

// {"mode":"restricted","allow":["example.com",{"host":"*.example.com","ports":[443,"8000-8999"],"proto":
// "tls"}, {"cidr":"192.0.2.0/24"}],"deny":[…],"internal":[…],"allow_first","pinned","dns":{"mode"},"limits"}.
// invalid_argument (permission_denied for "internal" without the right) says which entry, why, and the
// nearest valid form.
Result<EgressPolicy> parse_egress_policy(const JsonObject& object, EgressRights rights);
// The same checks for a policy put together otherwise.
Result<void> check_egress_policy(const EgressPolicy& policy, EgressRights rights);
// What is default is left out, except the mode. Parsed with all rights it is the same policy.
JsonObject to_json(const EgressPolicy& policy);

// One rule as text: "example.com", "*.example.com:443", "192.0.2.0/24:22,80-90", "[2606:4700::/32]:443"; with
// " tls", " http" or " tcp" behind it. What to_json gives for plain rules, and what the command line takes.
Result<EgressRule> parse_egress_rule(std::string_view text);

std::string_view to_string(EgressMode mode);
std::string_view to_string(EgressList list);
std::string_view to_string(EgressProtocol protocol);
std::optional<EgressProtocol> egress_protocol_from(std::string_view word);

}  // namespace space
