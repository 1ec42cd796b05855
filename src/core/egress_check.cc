// What is refused when a policy is written: rules that mean nothing, contradict, are too broad or point to
// where nobody may go.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/cidr_index.h"
#include "core/egress_policy.h"
#include "core/platform_deny.h"

namespace space {
namespace {

using namespace egress_limits;
using Ports = std::vector<PortRange>;

std::unexpected<Error> refuse(EgressList list, const EgressRule& rule, std::string_view why) {
  return fail(Code::invalid_argument, "{} rule '{}' {}", to_string(list), rule.text(), why);
}

// `outer` as `joined` gives it.
bool within(const PortRange& inner, const Ports& outer) {
  const auto behind = std::ranges::upper_bound(outer, inner.first, {}, &PortRange::first);
  return behind != outer.begin() && inner.last <= std::prev(behind)->last;
}

bool within(const Ports& inner, const Ports& outer) {
  return std::ranges::all_of(inner, [&](const PortRange& range) { return within(range, outer); });
}

// Both as `joined` gives them.
std::optional<std::uint16_t> common_port(const Ports& some, const Ports& others) {
  for (auto a = some.begin(), b = others.begin(); a != some.end() && b != others.end();) {
    if (const std::uint16_t first = std::max(a->first, b->first); first <= std::min(a->last, b->last))
      return first;
    if (a->last < b->last)
      ++a;
    else
      ++b;
  }
  return std::nullopt;
}

bool is_method(std::string_view text) {
  return !text.empty() && text.size() <= 32 &&
         std::ranges::all_of(text, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });
}

bool is_path(std::string_view text) {
  if (!text.starts_with('/') || text.size() > path_bytes_max) return false;
  const std::string_view body = text.ends_with('*') ? text.substr(0, text.size() - 1) : text;
  return std::ranges::all_of(body,
                             [](char c) { return c > ' ' && c <= '~' && c != '*' && c != '?' && c != '#'; });
}

Result<void> check_request_part(EgressList list, const EgressRule& rule) {
  if (!rule.by_request()) return {};
  if (rule.protocol != EgressProtocol::http)
    return refuse(
        list, rule,
        "has methods or paths, which only plain HTTP shows; give it \"proto\":\"http\", or leave them out");
  for (const std::string& method : rule.methods)
    if (!is_method(method))
      return refuse(list, rule,
                    fmt::format("has the method '{}'; write it in capitals, like 'GET'", quoted(method)));
  for (const std::string& path : rule.paths)
    if (!is_path(path))
      return refuse(
          list, rule,
          fmt::format("has the path '{}'; one begins with '/', has no '?' or '#', and a '*' only at "
                      "its end, like '/v1/*'",
                      quoted(path)));
  return {};
}

Result<void> check_host(EgressList list, const EgressRule& rule, const HostPattern& host, bool force) {
  if (rule.protocol == EgressProtocol::tcp && rule.ports.empty() && list == EgressList::allow)
    return refuse(list, rule, fmt::format("does not say which ports; write '{}:22 tcp'", host.text()));
  if (list == EgressList::deny) return {};
  if (host.name == "localhost" || host.name.ends_with(".localhost"))
    return refuse(list, rule, "is always the machine itself, where no sandbox may go");
  if (list == EgressList::internal && host.kind == HostPattern::Kind::any)
    return refuse(list, rule, "would let any name point to closed addresses; name the hosts");
  const bool broad = host.kind == HostPattern::Kind::below || host.kind == HostPattern::Kind::apex_and_below;
  if (broad && !force && is_public_suffix(host.name))
    return refuse(
        list, rule,
        fmt::format("is too broad: anybody can have a name below '{}'; write '*.NAME.{}', or force it",
                    host.name, host.name));
  return {};
}

Result<void> check_block(const CidrIndex& opened, EgressList list, const EgressRule& rule,
                         const Cidr& block) {
  const auto denied = PlatformDeny::covering(block);
  if (list == EgressList::allow && denied && opened.smallest_over(block) == CidrIndex::none)
    return refuse(
        list, rule,
        fmt::format("points into '{}', which is closed to every sandbox; only an entry of \"internal\", "
                    "written by an administrator, opens it",
                    denied->text()));
  if (const auto never = PlatformDeny::never_openable(block); list == EgressList::internal && never)
    return refuse(list, rule,
                  fmt::format("points into '{}', which nothing opens: loopback, link-local, metadata and "
                              "multicast addresses stay closed",
                              never->text()));
  return {};
}

Result<void> check_rule(const CidrIndex& opened, EgressList list, const EgressRule& rule, bool force) {
  if (rule.ports.size() > ports_max)
    return refuse(list, rule, fmt::format("has more than {} ports", ports_max));
  if (list != EgressList::allow && (rule.protocol != EgressProtocol::any || rule.by_request()))
    return refuse(list, rule, "is for every protocol, method and path; leave those out");
  SPACE_CHECK(check_request_part(list, rule));
  if (rule.host() != nullptr) return check_host(list, rule, *rule.host(), force);
  return check_block(opened, list, rule, *rule.cidr());
}

// That a rule to allow changes something.
Result<void> check_mode(const EgressPolicy& policy) {
  if (policy.allow.empty()) return {};
  if (policy.mode == EgressMode::deny_all)
    return refuse(EgressList::allow, policy.allow[0],
                  "means nothing in mode deny_all; write mode restricted, or leave the rule out");
  if (policy.mode != EgressMode::allow_all || policy.allow_first) return {};
  for (const EgressRule& rule : policy.allow)
    if (rule.protocol == EgressProtocol::any && !within(PortRange{25, 25}, ports_of(rule, EgressList::allow)))
      return refuse(EgressList::allow, rule,
                    "means nothing in mode allow_all, which allows it anyway; write mode restricted to allow "
                    "only what rules name, or leave the rule out");
  return {};
}

// The ports that the deny rules close, by target.
class Denied {
 public:
  explicit Denied(const std::vector<EgressRule>& rules) {
    std::vector<Cidr> blocks;
    for (const EgressRule& rule : rules) add(by_target_[target_text(rule)], rule);
    for (const EgressRule& rule : rules)
      if (rule.cidr() != nullptr) blocks.push_back(*rule.cidr());
    for (auto& [target, ports] : by_target_) ports = joined(std::move(ports));
    blocks_ = CidrIndex(std::move(blocks));
  }

  // The target whose deny rules cover all that `rule` allows; "" for none.
  std::string covering(const EgressRule& rule) const {
    const Ports ports = ports_of(rule, EgressList::allow);
    if (rule.cidr() == nullptr) return covering(*rule.host(), ports);
    for (auto at = blocks_.smallest_over(*rule.cidr()); at != CidrIndex::none; at = blocks_.outside(at))
      if (const std::string target = blocks_.blocks()[at].text(); closes(target, ports)) return target;
    return "";
  }

 private:
  using Kind = HostPattern::Kind;

  static std::string target_text(const EgressRule& rule) {
    return rule.cidr() != nullptr ? rule.cidr()->text() : rule.host()->text();
  }
  static void add(Ports& ports, const EgressRule& rule) {
    for (const PortRange& range : ports_of(rule, EgressList::deny)) ports.push_back(range);
  }

  bool closes(const std::string& target, const Ports& ports) const {
    const auto found = by_target_.find(target);
    return found != by_target_.end() && within(ports, found->second);
  }

  std::string covering(const HostPattern& host, const Ports& ports) const {
    std::vector<HostPattern> wider{host, {Kind::any, ""}};
    for (std::string name = host.name; !name.empty();) {
      for (const Kind kind : {Kind::below, Kind::apex_and_below}) wider.push_back({kind, name});
      const auto dot = name.find('.');
      name = dot == std::string::npos ? "" : name.substr(dot + 1);
    }
    for (const HostPattern& pattern : wider)
      if (pattern.covers(host) && closes(pattern.text(), ports)) return pattern.text();
    return "";
  }

  std::unordered_map<std::string, Ports> by_target_;
  CidrIndex blocks_;
};

Result<void> check_contradictions(const EgressPolicy& policy) {
  if (policy.allow_first || policy.deny.empty()) return {};
  const Denied denied(policy.deny);
  for (const EgressRule& rule : policy.allow)
    if (const std::string target = denied.covering(rule); !target.empty())
      return refuse(
          EgressList::allow, rule,
          fmt::format("contradicts deny rule '{}', which covers it and goes first; remove one of the two",
                      target));
  return {};
}

struct OfTarget {
  std::map<EgressProtocol, Ports> ports;
  std::size_t by_request = 0;
};
using Targets = std::map<std::variant<HostPattern, Cidr>, OfTarget>;

// What rules for a protocol say of each target.
Result<Targets> by_target(const std::vector<EgressRule>& rules) {
  Targets targets;
  for (const EgressRule& rule : rules) {
    OfTarget& target = targets[rule.target];
    if (rule.by_request() && ++target.by_request > request_rules_max)
      return refuse(
          EgressList::allow, rule,
          fmt::format("is one of more than {} with methods or paths for the same target; join their "
                      "paths",
                      request_rules_max));
    if (rule.protocol == EgressProtocol::any) continue;
    for (const PortRange& range : ports_of(rule, EgressList::allow))
      target.ports[rule.protocol].push_back(range);
  }
  for (auto& [name, target] : targets)
    for (auto& [protocol, ports] : target.ports) ports = joined(std::move(ports));
  return targets;
}

// One target, one port, two protocols: which of the two a connection has to speak is not said.
Result<void> check_ambiguities(const EgressPolicy& policy) {
  SPACE_TRY(const Targets targets, by_target(policy.allow));
  for (const auto& [name, target] : targets)
    for (auto a = target.ports.begin(); a != target.ports.end(); ++a)
      for (auto b = std::next(a); b != target.ports.end(); ++b)
        if (const auto port = common_port(a->second, b->second))
          return fail(
              Code::invalid_argument,
              "allow rules for '{}' are ambiguous: port {} is {} and {} in two of them; give each its "
              "own ports",
              EgressRule{.target = name}.text(), *port, to_string(a->first), to_string(b->first));
  return {};
}

Result<void> check_sizes(const EgressPolicy& policy) {
  const std::size_t rules = policy.allow.size() + policy.deny.size() + policy.internal.size();
  if (rules > rules_max)
    return fail(Code::invalid_argument,
                "the policy has {} rules; it may have {}: use wildcards and larger blocks", rules, rules_max);
  std::size_t ranges = 0, bytes = 0;
  for (const auto* list : {&policy.allow, &policy.deny, &policy.internal})
    for (const EgressRule& rule : *list) {
      ranges += rule.ports.size();
      for (const std::string& path : rule.paths) bytes += path.size();
    }
  if (ranges > ranges_max)
    return fail(Code::invalid_argument, "the policy names {} ranges of ports; it may name {}", ranges,
                ranges_max);
  if (bytes > paths_bytes_max)
    return fail(Code::invalid_argument, "the policy has {} bytes of paths; it may have {}", bytes,
                paths_bytes_max);
  return {};
}

// The blocks that "internal" opens.
CidrIndex opened_by(const EgressPolicy& policy) {
  std::vector<Cidr> blocks;
  for (const EgressRule& rule : policy.internal)
    if (rule.cidr() != nullptr) blocks.push_back(*rule.cidr());
  return CidrIndex(std::move(blocks));
}

}  // namespace

Result<void> check_egress_policy(const EgressPolicy& policy, EgressRights rights) {
  SPACE_CHECK(check_sizes(policy));
  if (!policy.internal.empty() && !rights.may_internal)
    return fail(
        Code::permission_denied,
        "\"internal\" opens addresses that are closed to every sandbox; only an administrator may write "
        "it");
  const CidrIndex opened = opened_by(policy);
  for (const EgressRule& rule : policy.internal)
    SPACE_CHECK(check_rule(opened, EgressList::internal, rule, rights.force));
  for (const EgressRule& rule : policy.deny)
    SPACE_CHECK(check_rule(opened, EgressList::deny, rule, rights.force));
  for (const EgressRule& rule : policy.allow)
    SPACE_CHECK(check_rule(opened, EgressList::allow, rule, rights.force));
  SPACE_CHECK(check_mode(policy));
  SPACE_CHECK(check_contradictions(policy));
  return check_ambiguities(policy);
}

}  // namespace space
