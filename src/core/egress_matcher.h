// EgressMatcher: an EgressPolicy compiled, so that 10,000 rules decide in under 2 us. Immutable; any thread.
//
// Exact names and suffixes are hashed, blocks are intervals, ports of a target are intervals again. Of
// several rules that match, the most specific target is named as the one that decides.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/egress_policy.h"
#include "core/egress_reason.h"
#include "core/platform_deny.h"

namespace space {

struct EgressVerdict {
  bool allowed = false;
  EgressReason reason = EgressReason::no_policy;
  std::string rule;  // text of the deciding rule, or ""; never a platform address
};

class EgressMatcher {
 public:
  explicit EgressMatcher(EgressPolicy policy);
  ~EgressMatcher();
  EgressMatcher(EgressMatcher&&) noexcept;
  EgressMatcher& operator=(EgressMatcher&&) noexcept;

  const EgressPolicy& policy() const;
  // Some rule is about names: flows to ports of TLS and HTTP must say theirs before they can be judged.
  bool needs_names() const;

  // Names are canonical everywhere below (core/host_name.h). `protocol`: what the flow is, or any.

  // May the sandbox learn its addresses: allowed on some port.
  EgressVerdict resolve(std::string_view name) const;
  bool name_may_resolve(std::string_view name) const { return resolve(name).allowed; }

  // A connection to the name. Rules by request count as met: each request is asked about with `http`.
  EgressVerdict name(std::string_view name, std::uint16_t port, EgressProtocol protocol) const;
  // One request in plain HTTP; `path` without query.
  EgressVerdict http(std::string_view name, std::uint16_t port, std::string_view method,
                     std::string_view path) const;
  // A connection to the address as such, by rules for blocks and the mode. Not the platform's deny set.
  EgressVerdict address(const IpAddress& to, std::uint16_t port,
                        EgressProtocol protocol = EgressProtocol::any) const;
  // The same for one request whose Host is the address itself.
  EgressVerdict http(const IpAddress& to, std::uint16_t port, std::string_view method,
                     std::string_view path) const;

  // May this very address be dialled: platform deny set and "internal", then the deny rules for blocks (with
  // allow_first not for a name that a rule allows). `name`: what it was resolved for, "" when it was dialled
  // as such. `port` 0: on any port, for answers of DNS. To be asked last, with the address that goes to
  // connect(). allowed says only that nothing speaks against it.
  EgressVerdict dialable(const PlatformDeny& platform, const IpAddress& to, std::uint16_t port,
                         std::string_view name = {}) const;

  // Right after accept, before any byte: a refusal that nothing the flow could say would change. `names`: the
  // pins of `to`. nullopt: go on.
  std::optional<EgressVerdict> refused_at_accept(const PlatformDeny& platform, const IpAddress& to,
                                                 std::uint16_t port,
                                                 std::span<const std::string> names) const;
  // What to read from a flow before deciding: tls, http, or tcp for nothing (the server may speak first).
  EgressProtocol expected(const IpAddress& to, std::uint16_t port, std::span<const std::string> names) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace space
