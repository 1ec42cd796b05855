#include "core/egress_matcher.h"

#include <algorithm>

#include "core/egress_rule_table.h"

namespace space {
namespace {

using enum EgressReason;

constexpr std::uint16_t port_mail = 25, port_http = 80, port_https = 443, port_https_too = 8443;

// What names get in synthetic DNS: inside the deny set, and never dialled.
const Cidr synthetic_v4 = Cidr::around(IpAddress::v4(0xc612'0000), 15);
const Cidr synthetic_v6 = Cidr::around(IpAddress::v6(0xfd53'5041'4345'0001, 0), 64);

EgressVerdict verdict(bool allowed, EgressReason reason, const std::string* rule = nullptr) {
  return {allowed, reason, rule == nullptr ? std::string() : *rule};
}

// Of a destination that no rule allows although one names it.
EgressReason reason_of(EgressMet met) {
  switch (met) {
    case EgressMet::target:
      return deny_port;
    case EgressMet::port:
      return deny_protocol;
    case EgressMet::protocol:
      return deny_method;
    case EgressMet::nothing:
    case EgressMet::all:
      break;
  }
  return deny_mode;
}

bool is_all(const std::vector<PortRange>& ports) {
  return ports.size() == 1 && ports[0] == PortRange{1, 65535};
}

// Some port of `some` is none of `others`; both as `joined` gives them.
bool any_beside(const std::vector<PortRange>& some, const std::vector<PortRange>& others) {
  return std::ranges::any_of(some, [&others](const PortRange& range) {
    const auto behind = std::ranges::upper_bound(others, range.first, {}, &PortRange::first);
    return behind == others.begin() || std::prev(behind)->last < range.last;
  });
}

}  // namespace

struct EgressMatcher::Compiled {
  explicit Compiled(EgressPolicy given)
      : policy(std::move(given)),
        allow(policy.allow, EgressList::allow),
        deny(policy.deny, EgressList::deny),
        internal(policy.internal, EgressList::internal) {}

  EgressVerdict decide(const EgressMatch& denied, const EgressMatch& allowed, std::uint16_t port) const;
  EgressVerdict by_mode(const EgressMatch& allowed, std::uint16_t port) const;
  EgressMatch denied(const IpAddress& to, std::uint16_t port) const;
  EgressMatch opened(const PlatformDeny& platform, const IpAddress& to, std::uint16_t port,
                     std::string_view name) const;

  const EgressPolicy policy;
  const EgressRuleTable allow, deny, internal;  // of the policy's lists
};

EgressVerdict EgressMatcher::Compiled::decide(const EgressMatch& denied, const EgressMatch& allowed,
                                              std::uint16_t port) const {
  if (policy.mode == EgressMode::deny_all) return verdict(false, deny_mode);
  if (port == 0) return verdict(false, deny_port);
  const bool is_denied = denied.met == EgressMet::all, is_allowed = allowed.met == EgressMet::all;
  if (is_denied && !(policy.allow_first && is_allowed)) return verdict(false, deny_rule, denied.rule);
  if (is_allowed) return verdict(true, allow_rule, allowed.rule);
  return by_mode(allowed, port);
}

EgressVerdict EgressMatcher::Compiled::by_mode(const EgressMatch& allowed, std::uint16_t port) const {
  if (policy.mode == EgressMode::allow_all)
    return port == port_mail ? verdict(false, deny_port) : verdict(true, allow_mode);
  return verdict(false, reason_of(allowed.met), allowed.rule);
}

// Also by what the address stands for: a deny rule for IPv4 holds for NAT64 and the like.
EgressMatch EgressMatcher::Compiled::denied(const IpAddress& to, std::uint16_t port) const {
  if (!deny.has_blocks()) return {};
  if (const EgressMatch match = deny.match(to, {.port = port}); match.met == EgressMet::all) return match;
  for (const IpAddress& inner : EmbeddedV4(to))
    if (const EgressMatch match = deny.match(inner, {.port = port}); match.met == EgressMet::all)
      return match;
  return {};
}

// The rule of "internal" that opens an address of the deny set.
EgressMatch EgressMatcher::Compiled::opened(const PlatformDeny& platform, const IpAddress& to,
                                            std::uint16_t port, std::string_view name) const {
  const EgressMatch by_block = internal.match(to, {.port = port});
  if (by_block.met == EgressMet::all && platform.may_open(to, internal.names_exactly(to, port)))
    return by_block;
  if (name.empty()) return {};
  const EgressMatch by_name = internal.match(name, {.port = port});
  return by_name.met == EgressMet::all && platform.may_open(to, false) ? by_name : EgressMatch{};
}

EgressMatcher::EgressMatcher(EgressPolicy policy)
    : compiled_(std::make_unique<const Compiled>(std::move(policy))) {}
EgressMatcher::~EgressMatcher() = default;
EgressMatcher::EgressMatcher(EgressMatcher&&) noexcept = default;
EgressMatcher& EgressMatcher::operator=(EgressMatcher&&) noexcept = default;

const EgressPolicy& EgressMatcher::policy() const {
  return compiled_->policy;
}

bool EgressMatcher::needs_names() const {
  return compiled_->allow.has_hosts() || compiled_->deny.has_hosts();
}

EgressVerdict EgressMatcher::resolve(std::string_view name) const {
  const Compiled& c = *compiled_;
  if (c.policy.mode == EgressMode::deny_all) return verdict(false, deny_mode);
  const EgressMatch allowed = c.allow.match(name, {}), denied = c.deny.match(name, {});
  if (allowed.met == EgressMet::all) {
    if (denied.met != EgressMet::all || c.policy.allow_first ||
        any_beside(c.allow.ports(name), c.deny.ports(name)))
      return verdict(true, allow_rule, allowed.rule);
  }
  if (denied.met == EgressMet::all && is_all(c.deny.ports(name)))
    return verdict(false, deny_rule, denied.rule);
  if (c.policy.mode == EgressMode::allow_all) return verdict(true, allow_mode);
  return denied.met == EgressMet::all ? verdict(false, deny_rule, denied.rule) : verdict(false, deny_mode);
}

EgressVerdict EgressMatcher::name(std::string_view name, std::uint16_t port, EgressProtocol protocol) const {
  const Compiled& c = *compiled_;
  return c.decide(c.deny.match(name, {.port = port}),
                  c.allow.match(name, {.port = port, .protocol = protocol}), port);
}

EgressVerdict EgressMatcher::http(std::string_view name, std::uint16_t port, std::string_view method,
                                  std::string_view path) const {
  const Compiled& c = *compiled_;
  return c.decide(c.deny.match(name, {.port = port}),
                  c.allow.match(name, {port, EgressProtocol::http, true, method, path}), port);
}

EgressVerdict EgressMatcher::address(const IpAddress& to, std::uint16_t port, EgressProtocol protocol) const {
  const Compiled& c = *compiled_;
  return c.decide(c.denied(to, port), c.allow.match(to, {.port = port, .protocol = protocol}), port);
}

EgressVerdict EgressMatcher::http(const IpAddress& to, std::uint16_t port, std::string_view method,
                                  std::string_view path) const {
  const Compiled& c = *compiled_;
  return c.decide(c.denied(to, port), c.allow.match(to, {port, EgressProtocol::http, true, method, path}),
                  port);
}

EgressVerdict EgressMatcher::dialable(const PlatformDeny& platform, const IpAddress& to, std::uint16_t port,
                                      std::string_view name) const {
  const Compiled& c = *compiled_;
  if (c.policy.mode == EgressMode::deny_all) return verdict(false, deny_mode);
  EgressMatch opened;
  if (platform.hit(to)) {
    opened = c.opened(platform, to, port, name);
    if (opened.met != EgressMet::all) return verdict(false, deny_platform);
  }
  EgressMatch denied = c.denied(to, port);
  if (port == 0 && !is_all(c.deny.ports(to))) denied = {};
  if (denied.met == EgressMet::all && c.policy.allow_first) {
    const bool by_name = !name.empty() && c.allow.match(name, {.port = port}).met == EgressMet::all;
    if (by_name || c.allow.match(to, {.port = port}).met == EgressMet::all) denied = {};
  }
  if (denied.met == EgressMet::all) return verdict(false, deny_rule, denied.rule);
  return opened.rule != nullptr ? verdict(true, allow_rule, opened.rule) : verdict(true, allow_mode);
}

std::optional<EgressVerdict> EgressMatcher::refused_at_accept(const PlatformDeny& platform,
                                                              const IpAddress& to, std::uint16_t port,
                                                              std::span<const std::string> names) const {
  const Compiled& c = *compiled_;
  if (port == 0) return verdict(false, deny_port);
  const bool synthetic = c.policy.dns == EgressDns::synthetic && !names.empty() &&
                         (synthetic_v4.contains(to) || synthetic_v6.contains(to));
  if (!synthetic && platform.hit(to)) {
    const auto opens = [&](std::string_view name) {
      return c.opened(platform, to, port, name).met == EgressMet::all;
    };
    if (!opens("") && std::ranges::none_of(names, opens)) return verdict(false, deny_platform);
  }
  const EgressMatch denied = c.denied(to, port);
  if (denied.met != EgressMet::all) return std::nullopt;
  const bool may_be_allowed =
      c.policy.allow_first &&
      (c.allow.has_hosts() || c.allow.match(to, {.port = port}).met == EgressMet::all);
  if (may_be_allowed) return std::nullopt;
  return verdict(false, deny_rule, denied.rule);
}

EgressProtocol EgressMatcher::expected(const IpAddress& to, std::uint16_t port,
                                       std::span<const std::string> names) const {
  const EgressRuleTable& allow = compiled_->allow;
  if (const auto said = allow.said(to, port); said != EgressProtocol::any) return said;
  for (const std::string& name : names)
    if (const auto said = allow.said(name, port); said != EgressProtocol::any) return said;
  if (port == port_https || port == port_https_too) return EgressProtocol::tls;
  return port == port_http ? EgressProtocol::http : EgressProtocol::tcp;
}

}  // namespace space
