// Resolver: the gateway's own look-ups, one a loop: what the resolvers of the node say of a name, cached for
// as long as guests may keep it, each question asked upstream once however many wait for it.
//
// Whoever resolves for a sandbox filters: answers here are as hostile as the internet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/task.h"
#include "netd/dns_cache.h"

namespace space::netd {

// Asks the resolvers of the node.
class DnsUpstream {
 public:
  virtual ~DnsUpstream() = default;
  // `name` is canonical. no_error and nx_domain are answers; everything else is unavailable, no answer in
  // time deadline, too many at once exhausted.
  virtual Task<Result<DnsReply>> ask(std::string name, DnsType type, Deadline deadline) = 0;
};

struct ResolverEndpoint {
  IpAddress address;
  std::uint16_t port = 53;
};
// Of "1.1.1.1", "1.1.1.1:5353", "[2606:4700:4700::1111]:53".
Result<ResolverEndpoint> parse_resolver_endpoint(std::string_view text);
// The nameserver lines of a resolv.conf, those that are addresses.
std::vector<ResolverEndpoint> resolvers_of(std::string_view resolv_conf);

class Resolver {
 public:
  static constexpr std::size_t max_under_way = 512;
  static constexpr Millis ask_time{4000};  // before the stub in a guest gives up (5 s)

  Resolver(const Executor& executor, std::unique_ptr<DnsUpstream> upstream,
           const Clock& clock = system_clock());
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // `name` is canonical.
  Task<Result<std::shared_ptr<const DnsReply>>> query(std::string name, DnsType type, Deadline deadline);
  // Of both families, the order of the answers, IPv4 first; not filtered. not_found: the name has none.
  Task<Result<std::vector<IpAddress>>> addresses(std::string name, Deadline deadline);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace space::netd
