// EgressRuleTable: one list of an egress policy, compiled for look-ups. Immutable, pure.
//
// Each target, once: exact names and suffixes in a hash table, blocks in a CidrIndex. Of each target its
// ports, cut into spans that know which rule holds there for which protocol.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/cidr_index.h"
#include "core/egress_policy.h"

namespace space {

// What is asked about.
struct EgressQuery {
  std::uint16_t port = 0;  // 0: any
  EgressProtocol protocol = EgressProtocol::any;
  // Of one request: rules by request are compared with it. Otherwise they count as met.
  bool by_request = false;
  std::string_view method, path;
};

// How far the best rule agrees: the next more than the one before.
enum class EgressMet : unsigned char { nothing, target, port, protocol, all };

struct EgressMatch {
  EgressMet met = EgressMet::nothing;
  const std::string* rule = nullptr;  // its text
};

class EgressRuleTable {
 public:
  // `rules` must outlive it.
  EgressRuleTable(std::span<const EgressRule> rules, EgressList list);

  // The most specific target of which a rule agrees in all; otherwise the one that agrees most.
  EgressMatch match(std::string_view name, const EgressQuery& query) const;
  EgressMatch match(const IpAddress& address, const EgressQuery& query) const;

  // A rule for just this address, not for a block around it.
  bool names_exactly(const IpAddress& address, std::uint16_t port) const;
  // The protocol that a rule for this port wants; any: none says.
  EgressProtocol said(std::string_view name, std::uint16_t port) const;
  EgressProtocol said(const IpAddress& address, std::uint16_t port) const;
  // All ports on which rules for it hold, as `joined` gives them.
  std::vector<PortRange> ports(std::string_view name) const;
  std::vector<PortRange> ports(const IpAddress& address) const;

  bool has_hosts() const { return has_hosts_; }
  bool has_blocks() const { return !blocks_.empty(); }

 private:
  static constexpr std::int32_t none = -1;

  struct Span {
    std::uint16_t first, last;
    EgressProtocol said;
    // Of each protocol the rule that holds: those without methods and paths first, then in order.
    std::array<std::int32_t, 4> rule;
    std::int32_t plain_http;  // the same without those by request
  };
  struct Target {
    std::vector<std::int32_t> rules;  // until compiled
    std::vector<Span> spans;          // ordered, disjoint
    std::vector<std::int32_t> by_request;
  };
  struct OfName {
    std::int32_t exact = none, below = none, with_apex = none;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  struct Active;

  void add_blocks();
  std::int32_t& place_of(const EgressRule& rule);
  void compile(Target& target) const;
  bool request_agrees(std::int32_t rule, const EgressQuery& query) const;
  EgressMatch match(const Target& target, const EgressQuery& query) const;
  // Calls visit(target) from the most specific one on, until it returns true.
  template <class Visit>
  void visit(std::string_view name, Visit visit) const;
  template <class Visit>
  void visit(const IpAddress& address, Visit visit) const;
  template <class Destination>
  EgressMatch best(const Destination& destination, const EgressQuery& query) const;
  template <class Destination>
  EgressProtocol first_said(const Destination& destination, std::uint16_t port) const;
  template <class Destination>
  std::vector<PortRange> all_ports(const Destination& destination) const;

  EgressList list_;
  std::span<const EgressRule> rules_;
  std::vector<std::string> texts_;
  std::vector<Target> targets_;
  std::unordered_map<std::string, OfName, Hash, std::equal_to<>> names_;
  std::bitset<128> labels_;  // how many labels wildcards have: other suffixes are not looked up
  std::int32_t any_ = none;
  CidrIndex blocks_;
  std::vector<std::int32_t> of_block_;  // by place
  bool has_hosts_ = false;
};

}  // namespace space
