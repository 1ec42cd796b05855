// DnsService: the only DNS a sandbox has. Judges each question by the policy, asks the resolver for what is
// allowed, removes what no sandbox may learn, and pins what it tells. One a sandbox; belongs to one loop.
//
// A refused name never reaches a resolver. Every refusal says its reason word as an extended error.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/egress_matcher.h"
#include "netd/dns_answer.h"
#include "netd/dns_limits.h"
#include "netd/pins.h"
#include "netd/resolver.h"
#include "netd/synthetic_names.h"

namespace space::netd {

// What was decided about one question; for the log.
struct DnsDecision {
  std::string host;  // canonical, or quoted when it is no name
  DnsType type{};
  bool allowed = false;
  EgressReason reason = EgressReason::no_policy;
  std::string rule;
};
class DnsObserver {
 public:
  virtual ~DnsObserver() = default;
  // Must not destroy the service.
  virtual void dns_query(const DnsDecision& decision) = 0;
};

class DnsService : public std::enable_shared_from_this<DnsService> {
 public:
  static constexpr std::size_t max_under_way = 256;

  DnsService(Resolver& resolver, std::shared_ptr<Pins> pins, std::shared_ptr<DnsObserver> observer,
             const Clock& clock = system_clock());

  // By the next question on; no matcher: everything is refused (no_policy).
  void set_policy(std::shared_ptr<const EgressMatcher> matcher, std::shared_ptr<const PlatformDeny> platform);

  // The answer to a question, or nothing: dropped. The caller keeps the service until it returns.
  Task<std::optional<Bytes>> answer(Bytes query, bool over_tcp);

  // For a flow to the name, which its caller judged: counts it against the wildcard that allows it, resolves,
  // and keeps the addresses that may be dialled on `port`. exhausted: too many names; permission_denied: all
  // filtered; not_found: it has no address; unavailable, deadline: no resolver answered.
  Task<Result<std::vector<IpAddress>>> dial_addresses(std::string name, std::uint16_t port,
                                                      Deadline deadline);

  // The questions of the last moment were too many: reading the next may wait.
  bool flooded() const { return flooded_; }

 private:
  struct Rules {
    std::shared_ptr<const EgressMatcher> matcher;
    std::shared_ptr<const PlatformDeny> platform;
  };
  // One question on its way to its answer. The rules are those of when it came.
  struct Ask {
    DnsAnswer answer;
    std::string name;  // canonical, or quoted when it is none
    DnsType type{};
    unsigned edns_version = 0;
    std::size_t limit = 0;  // of the answer
    EgressVerdict verdict;
    Rules rules;
    bool to_note = false;
  };

  std::optional<Ask> read(std::span<const std::byte> query, bool over_tcp) const;
  bool judge(Ask& ask);
  bool judge_allowed(Ask& ask);
  bool refuse(Ask& ask, DnsRcode rcode, EgressReason reason,
              ExtendedError code = ExtendedError::blocked) const;
  bool learnable(const Ask& ask, const IpAddress& address) const;
  Task<void> resolve(Ask& ask);
  Task<void> resolve_synthetic(Ask& ask);
  void unresolved(Ask& ask, const Error& error) const;
  void answer_from(Ask& ask, const DnsReply& reply);
  std::optional<DnsRecord> kept_record(const Ask& ask, DnsRecord record);
  void note(const Ask& ask) const;

  Resolver& resolver_;
  std::shared_ptr<Pins> pins_;
  std::shared_ptr<DnsObserver> observer_;
  Rules rules_;
  SyntheticNames synthetic_;
  UniqueNames unique_names_;
  TokenBucket questions_, refusals_;
  std::size_t under_way_ = 0;
  bool flooded_ = false;
};

}  // namespace space::netd
