#include "core/egress_rule_table.h"

#include <algorithm>
#include <set>

#include "core/request_path.h"

namespace space {
namespace {

constexpr std::size_t text_max = 200;

std::string short_text(EgressList list, const EgressRule& rule) {
  std::string text = fmt::format("{} {}", to_string(list), rule.text());
  if (text.size() > text_max) text.replace(text_max, std::string::npos, "...");
  return text;
}

std::size_t labels_in(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count(name, '.')) + 1;
}

}  // namespace

// The rules that hold at a port, while a target's ports are gone through.
struct EgressRuleTable::Active {
  std::array<std::set<std::int32_t>, 4> plain;  // by protocol
  std::set<std::int32_t> by_request;

  std::set<std::int32_t>& of(const EgressRule& rule) {
    return rule.by_request() ? by_request : plain[static_cast<std::size_t>(rule.protocol)];
  }

  static std::int32_t first(const std::set<std::int32_t>& rules) {
    return rules.empty() ? none : *rules.begin();
  }
  static std::int32_t earlier(std::int32_t a, std::int32_t b) {
    if (a == none || b == none) return std::max(a, b);
    return std::min(a, b);
  }
  std::int32_t plain_for(EgressProtocol protocol) const {
    return earlier(first(plain[0]), first(plain[static_cast<std::size_t>(protocol)]));
  }
  bool empty() const {
    return by_request.empty() && std::ranges::all_of(plain, [](const auto& rules) { return rules.empty(); });
  }

  EgressProtocol said() const {
    using enum EgressProtocol;
    if (!plain[static_cast<std::size_t>(tls)].empty()) return tls;
    if (!plain[static_cast<std::size_t>(http)].empty() || !by_request.empty()) return http;
    return plain[static_cast<std::size_t>(tcp)].empty() ? any : tcp;
  }

  Span span(std::uint16_t from, std::uint16_t to) const {
    using enum EgressProtocol;
    const auto or_by_request = [this](std::int32_t rule) { return rule == none ? first(by_request) : rule; };
    const std::int32_t for_tls = plain_for(tls), for_http = plain_for(http), for_tcp = plain_for(tcp);
    const std::int32_t some = earlier(earlier(for_tls, for_http), for_tcp);
    return {from, to, said(), {or_by_request(some), for_tls, or_by_request(for_http), for_tcp}, for_http};
  }
};

EgressRuleTable::EgressRuleTable(std::span<const EgressRule> rules, EgressList list)
    : list_(list), rules_(rules) {
  add_blocks();
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    texts_.push_back(short_text(list_, rules_[i]));
    std::int32_t& place = place_of(rules_[i]);
    if (place == none) {
      place = static_cast<std::int32_t>(targets_.size());
      targets_.emplace_back();
    }
    targets_[static_cast<std::size_t>(place)].rules.push_back(static_cast<std::int32_t>(i));
  }
  for (Target& target : targets_) compile(target);
}

void EgressRuleTable::add_blocks() {
  std::vector<Cidr> blocks;
  for (const EgressRule& rule : rules_)
    if (rule.cidr() != nullptr) blocks.push_back(*rule.cidr());
  blocks_ = CidrIndex(std::move(blocks));
  of_block_.assign(blocks_.blocks().size(), none);
}

std::int32_t& EgressRuleTable::place_of(const EgressRule& rule) {
  if (rule.cidr() != nullptr) return of_block_[blocks_.find(*rule.cidr())];
  has_hosts_ = true;
  const HostPattern& host = *rule.host();
  if (host.kind == HostPattern::Kind::any) return any_;
  OfName& name = names_[host.name];
  if (host.kind == HostPattern::Kind::exact) return name.exact;
  labels_.set(std::min(labels_in(host.name), labels_.size() - 1));
  return host.kind == HostPattern::Kind::below ? name.below : name.with_apex;
}

void EgressRuleTable::compile(Target& target) const {
  struct Edge {
    std::uint32_t port;
    bool begins;
    std::int32_t rule;
  };
  std::vector<Edge> edges;
  for (const std::int32_t rule : target.rules) {
    const EgressRule& of = rules_[static_cast<std::size_t>(rule)];
    if (of.by_request()) target.by_request.push_back(rule);
    for (const PortRange& range : joined(ports_of(of, list_))) {
      edges.push_back({range.first, true, rule});
      edges.push_back({std::uint32_t{range.last} + 1, false, rule});
    }
  }
  std::ranges::sort(edges, {}, &Edge::port);
  Active active;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    auto& rules = active.of(rules_[static_cast<std::size_t>(edges[i].rule)]);
    if (edges[i].begins)
      rules.insert(edges[i].rule);
    else
      rules.erase(edges[i].rule);
    if (active.empty() || i + 1 == edges.size() || edges[i + 1].port == edges[i].port) continue;
    target.spans.push_back(active.span(static_cast<std::uint16_t>(edges[i].port),
                                       static_cast<std::uint16_t>(edges[i + 1].port - 1)));
  }
  target.rules = {};
}

bool EgressRuleTable::request_agrees(std::int32_t index, const EgressQuery& query) const {
  const EgressRule& rule = rules_[static_cast<std::size_t>(index)];
  const bool method =
      rule.methods.empty() || std::ranges::find(rule.methods, query.method) != rule.methods.end();
  if (!method || (!rule.paths.empty() && !path_matches(rule.paths, query.path))) return false;
  return std::ranges::any_of(ports_of(rule, list_), [&query](const PortRange& range) {
    return range.first <= query.port && query.port <= range.last;
  });
}

EgressMatch EgressRuleTable::match(const Target& target, const EgressQuery& query) const {
  const auto found = [this](EgressMet met, std::int32_t rule) {
    return EgressMatch{met, &texts_[static_cast<std::size_t>(rule)]};
  };
  if (target.spans.empty()) return {};
  auto span = target.spans.begin();
  if (query.port != 0) {
    const auto behind = std::ranges::upper_bound(target.spans, query.port, {}, &Span::first);
    if (behind == target.spans.begin() || std::prev(behind)->last < query.port)
      return found(EgressMet::target, target.spans[0].rule[0]);
    span = std::prev(behind);
  }
  const std::int32_t rule = span->rule[static_cast<std::size_t>(query.protocol)];
  if (rule == none) return found(EgressMet::port, span->rule[0]);
  if (!query.by_request || query.protocol != EgressProtocol::http) return found(EgressMet::all, rule);
  if (span->plain_http != none) return found(EgressMet::all, span->plain_http);
  for (const std::int32_t candidate : target.by_request)
    if (request_agrees(candidate, query)) return found(EgressMet::all, candidate);
  return found(EgressMet::protocol, rule);
}

template <class Visit>
void EgressRuleTable::visit(std::string_view name, Visit visit) const {
  const auto at = [&](std::int32_t place) {
    return place != none && visit(targets_[static_cast<std::size_t>(place)]);
  };
  if (const auto found = names_.find(name); found != names_.end())
    if (at(found->second.exact) || at(found->second.with_apex)) return;
  std::size_t labels = labels_in(name);
  for (auto dot = name.find('.'); labels_.any() && dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    if (!labels_.test(std::min(--labels, labels_.size() - 1))) continue;
    const auto found = names_.find(name.substr(dot + 1));
    if (found != names_.end() && (at(found->second.below) || at(found->second.with_apex))) return;
  }
  at(any_);
}

template <class Visit>
void EgressRuleTable::visit(const IpAddress& address, Visit visit) const {
  for (auto place = blocks_.smallest(address); place != CidrIndex::none; place = blocks_.outside(place))
    if (visit(targets_[static_cast<std::size_t>(of_block_[place])])) return;
}

template <class Destination>
EgressMatch EgressRuleTable::best(const Destination& destination, const EgressQuery& query) const {
  EgressMatch best;
  visit(destination, [&](const Target& target) {
    const EgressMatch match = this->match(target, query);
    if (match.met > best.met) best = match;
    return best.met == EgressMet::all;
  });
  return best;
}

template <class Destination>
EgressProtocol EgressRuleTable::first_said(const Destination& destination, std::uint16_t port) const {
  EgressProtocol said = EgressProtocol::any;
  visit(destination, [&](const Target& target) {
    const auto behind = std::ranges::upper_bound(target.spans, port, {}, &Span::first);
    if (behind != target.spans.begin() && port <= std::prev(behind)->last) said = std::prev(behind)->said;
    return said != EgressProtocol::any;
  });
  return said;
}

template <class Destination>
std::vector<PortRange> EgressRuleTable::all_ports(const Destination& destination) const {
  std::vector<PortRange> ports;
  visit(destination, [&](const Target& target) {
    for (const Span& span : target.spans) ports.push_back({span.first, span.last});
    return false;
  });
  return joined(std::move(ports));
}

EgressMatch EgressRuleTable::match(std::string_view name, const EgressQuery& query) const {
  return best(name, query);
}

EgressMatch EgressRuleTable::match(const IpAddress& address, const EgressQuery& query) const {
  return best(address, query);
}

bool EgressRuleTable::names_exactly(const IpAddress& address, std::uint16_t port) const {
  const auto place = blocks_.find(Cidr::only(address));
  if (place == CidrIndex::none) return false;
  return match(targets_[static_cast<std::size_t>(of_block_[place])], {.port = port}).met == EgressMet::all;
}

EgressProtocol EgressRuleTable::said(std::string_view name, std::uint16_t port) const {
  return first_said(name, port);
}

EgressProtocol EgressRuleTable::said(const IpAddress& address, std::uint16_t port) const {
  return first_said(address, port);
}

std::vector<PortRange> EgressRuleTable::ports(std::string_view name) const {
  return all_ports(name);
}

std::vector<PortRange> EgressRuleTable::ports(const IpAddress& address) const {
  return all_ports(address);
}

}  // namespace space
