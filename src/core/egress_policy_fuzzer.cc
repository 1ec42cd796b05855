// Policies as JSON and rules as text: what is accepted is accepted again in the form that is stored and means
// the same, a compiled matcher of it agrees with itself, and E2B's options never give a policy that would be
// refused.
#include <cstdlib>
#include <vector>

#include "core/egress_e2b.h"
#include "core/egress_matcher.h"

using namespace space;

namespace {

constexpr EgressRights all{.may_internal = true, .force = true};

void require(bool condition) {
  if (!condition) std::abort();
}

void read_policy(const JsonObject& object) {
  const auto policy = parse_egress_policy(object, all);
  if (const auto less = parse_egress_policy(object, {}); less) require(policy && *policy == *less);
  if (!policy) return;
  const auto again = parse_json_object(to_text(to_json(*policy)), "policy");
  require(again.has_value());
  const auto same = parse_egress_policy(*again, all);
  require(same && *same == *policy);
  const EgressMatcher matcher(*policy);
  for (const EgressRule& rule : policy->allow) {
    const auto ports = ports_of(rule, EgressList::allow);
    require(!ports.empty() && joined(ports) == ports);
    const HostPattern* host = rule.host();
    if (host == nullptr || host->kind != HostPattern::Kind::exact) continue;
    const EgressVerdict verdict = matcher.name(host->name, ports[0].first, EgressProtocol::any);
    require(verdict.allowed || verdict.reason == EgressReason::deny_rule);
    if (verdict.allowed) require(matcher.name_may_resolve(host->name));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto rule = parse_egress_rule(text)) {
    const auto again = parse_egress_rule(rule->text());
    require(again && *again == *rule);
  }
  const auto object = parse_json_object(text, "policy");
  if (!object) return 0;
  read_policy(*object);
  if (const auto policy = egress_from_e2b(&*object, {}))
    require(check_egress_policy(*policy, all).has_value());
  return 0;
}
