// What a resolver's answer says about a name: its aliases, and the records at their end. Records about other
// names are left aside. Pure; fuzzed.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "netd/dns_message.h"

namespace space::netd {

inline constexpr std::size_t max_cnames = 8;
inline constexpr std::size_t max_chain_records = 32;  // at its end; the rest is left out

struct DnsChain {
  std::vector<DnsRecord> cnames;   // in their order
  std::vector<DnsRecord> records;  // of the type that was asked for
};
// nullopt: more aliases than max_cnames, or in a circle. A CNAME that is asked for is a record, not followed.
std::optional<DnsChain> follow_chain(const std::vector<DnsRecord>& answers, std::string_view name,
                                     DnsType type);

// A SVCB or HTTPS record without what would lead around the gateway: keys for encrypted ClientHellos (the
// name must be seen) and addresses (they come by A and AAAA). nullopt: malformed, or it says that clients
// need one of these.
struct ServiceBinding {
  DnsRecord record;
  std::string target;  // where to look further; "" for the record's own name
};
std::optional<ServiceBinding> plain_service_binding(const DnsRecord& record);

}  // namespace space::netd
