#include "core/egress_reference.h"

#include <algorithm>
#include <array>

#include "core/request_path.h"

namespace space::reference {
namespace {

using Rules = std::vector<EgressRule>;

struct Destination {
  std::string_view name;
  std::optional<IpAddress> address;
};

// How specific the rule's target is; nullopt: it is not about the destination.
std::optional<int> rank(const EgressRule& rule, const Destination& to) {
  if (const Cidr* block = rule.cidr()) {
    if (!to.address || !block->contains(*to.address)) return std::nullopt;
    return block->prefix();
  }
  const HostPattern& host = *rule.host();
  if (to.address || !host.matches(to.name)) return std::nullopt;
  if (host.kind == HostPattern::Kind::any) return -1;
  const bool with_apex = host.kind == HostPattern::Kind::apex_and_below;
  if (host.name == to.name) return with_apex ? 10'000 : 10'001;
  return 2 * static_cast<int>(host.name.size()) + (with_apex ? 0 : 1);
}

bool has_port(const EgressRule& rule, EgressList list, std::uint16_t port) {
  return std::ranges::any_of(ports_of(rule, list), [port](const PortRange& range) {
    return range.first <= port && port <= range.last;
  });
}

bool has_protocol(const EgressRule& rule, EgressProtocol asked) {
  const EgressProtocol own = rule.by_request() ? EgressProtocol::http : rule.protocol;
  return own == EgressProtocol::any || asked == EgressProtocol::any || own == asked;
}

bool has_request(const EgressRule& rule, const std::optional<Request>& request) {
  if (!request || !rule.by_request()) return true;
  const bool method = rule.methods.empty() || std::ranges::count(rule.methods, request->method) > 0;
  return method && (rule.paths.empty() || path_matches(rule.paths, request->path));
}

struct Found {
  int met = 0;  // 1 target, 2 port, 3 protocol, 4 all
  const EgressRule* rule = nullptr;
  int rank = 0;
};

Found find(const Rules& rules, EgressList list, const Destination& to, std::uint16_t port,
           EgressProtocol protocol, const std::optional<Request>& request) {
  Found best;
  for (const EgressRule& rule : rules) {
    const auto specific = rank(rule, to);
    if (!specific) continue;
    int met = 1;
    if (has_port(rule, list, port)) {
      met = 2;
      if (has_protocol(rule, protocol)) met = has_request(rule, request) ? 4 : 3;
    }
    const bool better =
        met > best.met || (met == best.met && *specific > best.rank) ||
        (met == best.met && *specific == best.rank && best.rule->by_request() && !rule.by_request());
    if (better) best = {met, &rule, *specific};
  }
  return best;
}

EgressVerdict decide(const EgressPolicy& policy, const Found& denied, const Found& allowed,
                     std::uint16_t port) {
  using enum EgressReason;
  if (policy.mode == EgressMode::deny_all) return {false, deny_mode, ""};
  if (port == 0) return {false, deny_port, ""};
  const EgressVerdict by_deny{false, deny_rule, denied.rule == nullptr ? "" : "deny " + denied.rule->text()};
  const EgressVerdict by_allow{true, allow_rule,
                               allowed.rule == nullptr ? "" : "allow " + allowed.rule->text()};
  if (policy.allow_first && allowed.met == 4) return by_allow;
  if (denied.met == 4) return by_deny;
  if (allowed.met == 4) return by_allow;
  if (policy.mode == EgressMode::allow_all) return {port != 25, port == 25 ? deny_port : allow_mode, ""};
  constexpr std::array reasons{deny_mode, deny_port, deny_protocol, deny_method};
  return {false, reasons.at(static_cast<std::size_t>(allowed.met)), ""};
}

Found denied_address(const EgressPolicy& policy, const IpAddress& to, std::uint16_t port) {
  const auto ask = [&](const IpAddress& address) {
    return find(policy.deny, EgressList::deny, {"", address}, port, EgressProtocol::any, {});
  };
  Found found = ask(to);
  for (const IpAddress& inner : EmbeddedV4(to))
    if (found.met != 4) found = ask(inner);
  return found;
}

// Ports at which an answer can change, each with its neighbours.
std::vector<std::uint16_t> telling_ports(const EgressPolicy& policy) {
  std::vector<std::uint16_t> ports{1, 24, 25, 26, 80, 443, 65535};
  const auto add = [&ports](const Rules& rules, EgressList list) {
    for (const EgressRule& rule : rules)
      for (const PortRange& range : ports_of(rule, list))
        for (const int port : {range.first - 1, int{range.first}, int{range.last}, range.last + 1})
          if (port >= 1 && port <= 65535) ports.push_back(static_cast<std::uint16_t>(port));
  };
  add(policy.allow, EgressList::allow);
  add(policy.deny, EgressList::deny);
  return ports;
}

}  // namespace

EgressVerdict name(const EgressPolicy& policy, std::string_view name, std::uint16_t port,
                   EgressProtocol protocol, std::optional<Request> request) {
  const Destination to{name, std::nullopt};
  return decide(policy, find(policy.deny, EgressList::deny, to, port, EgressProtocol::any, {}),
                find(policy.allow, EgressList::allow, to, port, protocol, request), port);
}

EgressVerdict address(const EgressPolicy& policy, const IpAddress& to, std::uint16_t port,
                      EgressProtocol protocol, std::optional<Request> request) {
  return decide(policy, denied_address(policy, to, port),
                find(policy.allow, EgressList::allow, {"", to}, port, protocol, request), port);
}

EgressVerdict resolve(const EgressPolicy& policy, std::string_view queried) {
  bool by_rule = false, by_mode = false, by_deny = false;
  for (const std::uint16_t port : telling_ports(policy)) {
    const EgressVerdict verdict = name(policy, queried, port, EgressProtocol::any);
    by_rule |= verdict.reason == EgressReason::allow_rule;
    // Mail is no reason to refuse a name; that it is denied by a rule is one.
    by_mode |= verdict.reason == EgressReason::allow_mode ||
               (policy.mode == EgressMode::allow_all && verdict.reason == EgressReason::deny_port);
    by_deny |= verdict.reason == EgressReason::deny_rule;
  }
  if (by_rule) return {true, EgressReason::allow_rule, ""};
  if (by_mode) return {true, EgressReason::allow_mode, ""};
  return {false, by_deny ? EgressReason::deny_rule : EgressReason::deny_mode, ""};
}

EgressProtocol expected(const EgressPolicy& policy, const IpAddress& to, std::uint16_t port,
                        std::span<const std::string> names) {
  const auto said = [&](const Destination& destination) {
    std::vector<std::pair<int, EgressProtocol>> found;
    for (const EgressRule& rule : policy.allow) {
      const EgressProtocol own = rule.by_request() ? EgressProtocol::http : rule.protocol;
      const auto specific = rank(rule, destination);
      if (specific && own != EgressProtocol::any && has_port(rule, EgressList::allow, port))
        found.emplace_back(-*specific, own);
    }
    std::ranges::sort(found);
    return found.empty() ? EgressProtocol::any : found[0].second;
  };
  if (const auto protocol = said({"", to}); protocol != EgressProtocol::any) return protocol;
  for (const std::string& name : names)
    if (const auto protocol = said({name, std::nullopt}); protocol != EgressProtocol::any) return protocol;
  if (port == 443 || port == 8443) return EgressProtocol::tls;
  return port == 80 ? EgressProtocol::http : EgressProtocol::tcp;
}

namespace {

const std::array<std::string, 10> names{"test",    "a.test",      "b.a.test", "c.b.a.test", "d.c.b.a.test",
                                        "xa.test", "a.test.evil", "evil",     "b.test",     "x.b.test"};
const std::array<const char*, 16> blocks{"0.0.0.0/0",     "1.0.0.0/8",    "1.2.0.0/16",     "1.2.3.0/24",
                                         "1.2.3.4/32",    "1.2.3.5/32",   "1.2.4.0/22",     "128.0.0.0/1",
                                         "255.0.0.0/8",   "::/0",         "2600::/12",      "2600:1::/32",
                                         "2600:1::5/128", "64:ff9b::/96", "ffff:ff00::/24", "::1:0:0/97"};
const std::array<const char*, 16> addresses{
    "1.2.3.4",          "1.2.3.5",         "1.2.3.3",   "1.2.4.0",
    "1.2.7.255",        "1.3.0.0",         "0.0.0.0",   "255.255.255.255",
    "128.0.0.0",        "127.255.255.255", "2600:1::5", "2600:1::6",
    "64:ff9b::102:304", "::ffff:1.2.3.5",  "::",        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
constexpr std::array<std::uint16_t, 10> ports{1, 22, 25, 26, 80, 443, 8443, 8000, 65535, 0};
constexpr std::array<std::string_view, 3> methods{"GET", "POST", "DELETE"};
constexpr std::array<std::string_view, 6> paths{"/", "/a", "/a/b", "/a/../c", "/ab", "/a%2fb"};
constexpr std::array<std::string_view, 4> path_rules{"/", "/a", "/a/*", "/a*"};

}  // namespace

std::size_t Sample::below(std::size_t count) {
  if (bytes_.empty()) return 0;
  const std::size_t value = bytes_[0] % count;
  bytes_ = bytes_.subspan(1);
  return value;
}

std::string Sample::name() {
  return names.at(below(names.size()));
}

IpAddress Sample::address() {
  return *IpAddress::parse(addresses.at(below(addresses.size())));
}

std::uint16_t Sample::port() {
  return ports.at(below(ports.size()));
}

EgressProtocol Sample::protocol() {
  return static_cast<EgressProtocol>(below(4));
}

std::string_view Sample::method() {
  return methods.at(below(methods.size()));
}

std::string_view Sample::path() {
  return paths.at(below(paths.size()));
}

EgressRule Sample::rule(bool allow) {
  EgressRule rule;
  const std::size_t kind = below(7);
  if (kind < 3)
    rule.target = *Cidr::parse(blocks.at(below(blocks.size())));
  else if (kind < 6)
    rule.target = HostPattern{static_cast<HostPattern::Kind>(kind - 3), names.at(below(names.size()))};
  else
    rule.target = HostPattern{HostPattern::Kind::any, ""};
  std::vector<PortRange> ranges;
  for (std::size_t left = below(3); left > 0; --left) {
    const std::uint16_t a = ports.at(below(ports.size() - 1)), b = ports.at(below(ports.size() - 1));
    ranges.push_back({std::min(a, b), std::max(a, b)});
  }
  rule.ports = joined(std::move(ranges));
  if (!allow) return rule;
  rule.protocol = protocol();
  if (below(4) != 0) return rule;
  rule.protocol = EgressProtocol::http;
  rule.methods.emplace_back(method());
  if (below(2) == 0) rule.paths.emplace_back(path_rules.at(below(path_rules.size())));
  return rule;
}

EgressPolicy Sample::policy() {
  EgressPolicy policy;
  const std::size_t head = below(8);
  policy.mode = static_cast<EgressMode>(head % 3);
  policy.allow_first = head >= 4;
  for (std::size_t left = below(8); left > 0; --left) policy.allow.push_back(rule(true));
  for (std::size_t left = below(5); left > 0; --left) policy.deny.push_back(rule(false));
  return policy;
}

namespace {

// What decides is only named when a rule does.
bool same(const EgressVerdict& a, const EgressVerdict& b, bool with_rule) {
  if (a.allowed != b.allowed || a.reason != b.reason) return false;
  const bool by_rule = a.reason == EgressReason::allow_rule || a.reason == EgressReason::deny_rule;
  return !with_rule || !by_rule || a.rule == b.rule;
}

std::string shown(const EgressVerdict& verdict) {
  return fmt::format("{} '{}'", to_string(verdict.reason), verdict.rule);
}

}  // namespace

std::optional<std::string> disagreement(const EgressMatcher& matcher, Sample& sample) {
  const EgressPolicy& policy = matcher.policy();
  const std::string host = sample.name();
  const IpAddress to = sample.address();
  const std::uint16_t port = sample.port();
  const EgressProtocol protocol = sample.protocol();
  const Request request{sample.method(), sample.path()};
  const std::vector<std::string> pins{sample.name(), host};

  struct Answers {
    std::string_view question;
    EgressVerdict matcher, reference;
    bool with_rule = true;
  };
  const Answers all[] = {
      {"name", matcher.name(host, port, protocol), name(policy, host, port, protocol)},
      {"address", matcher.address(to, port, protocol), address(policy, to, port, protocol)},
      {"http to a name", matcher.http(host, port, request.method, request.path),
       name(policy, host, port, EgressProtocol::http, request)},
      {"http to an address", matcher.http(to, port, request.method, request.path),
       address(policy, to, port, EgressProtocol::http, request)},
      {"resolve", matcher.resolve(host), resolve(policy, host), false},
  };
  const auto asked = [&](std::string_view question) {
    return fmt::format("{}: {} {} port {} {} {} {}", question, host, to.text(), port, to_string(protocol),
                       request.method, request.path);
  };
  for (const Answers& answers : all)
    if (!same(answers.matcher, answers.reference, answers.with_rule))
      return fmt::format("{}: {}, the reference says {}", asked(answers.question), shown(answers.matcher),
                         shown(answers.reference));
  // Where rules of one target differ, which is refused when they are written, either is right.
  if (check_egress_policy(policy, {.may_internal = true, .force = true}) &&
      matcher.expected(to, port, pins) != expected(policy, to, port, pins))
    return asked("expected protocol");
  return std::nullopt;
}

}  // namespace space::reference
