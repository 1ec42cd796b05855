#include "netd/flow_decision.h"

#include <algorithm>

namespace space::netd {
namespace {

bool by_rule(const EgressVerdict& verdict) {
  return verdict.allowed && verdict.reason == EgressReason::allow_rule;
}

EgressVerdict refuse(EgressReason reason, std::string rule = {}) {
  return {.allowed = false, .reason = reason, .rule = std::move(rule)};
}

bool told(const Destination& to, std::string_view name) {
  return std::ranges::find(to.names, name) != to.names.end();
}

// A flow for `name`, of which the rules for names say `of_name` and those for blocks `of_address`.
FlowDecision decide_named(const EgressMatcher& matcher, const Destination& to, const std::string& name,
                          EgressVerdict of_name, EgressVerdict of_address) {
  if (to.synthetic) {
    // The name this address stands for, or none.
    if (of_name.allowed && !told(to, name)) of_name = refuse(EgressReason::deny_pin, of_name.rule);
    return {std::move(of_name), name, true};
  }
  if (by_rule(of_name)) {
    const bool pinned = !matcher.policy().pinned || told(to, name);
    if (pinned) return {std::move(of_name), name, true};
    if (by_rule(of_address)) return {std::move(of_address), name, false};
    return {refuse(EgressReason::deny_pin, of_name.rule), name, false};
  }
  if (of_name.allowed) return {std::move(of_address), name, false};  // the mode allows every name
  if (of_name.reason == EgressReason::deny_rule) return {std::move(of_name), name, false};
  if (by_rule(of_address)) return {std::move(of_address), name, false};
  if (of_address.reason == EgressReason::deny_rule) return {std::move(of_address), name, false};
  return {std::move(of_name), name, false};
}

// By its address and by the names the guest was told for it; any of those may be meant.
FlowDecision decide_by_destination(const EgressMatcher& matcher, const Destination& to,
                                   EgressProtocol protocol, bool names_allow) {
  FlowDecision by_name{refuse(EgressReason::deny_mode), {}, to.synthetic};
  for (const std::string& name : to.names) {
    EgressVerdict verdict = matcher.name(name, to.port, protocol);
    if (verdict.reason == EgressReason::deny_rule) return {std::move(verdict), name, to.synthetic};
    const bool better = by_name.name.empty() || (by_rule(verdict) && !by_rule(by_name.verdict));
    if (better) by_name = {std::move(verdict), name, to.synthetic};
  }
  if (to.synthetic) return by_name;
  EgressVerdict of_address = matcher.address(to.address, to.port, protocol);
  const bool name_counts = names_allow && by_rule(by_name.verdict);
  const bool name_first = name_counts && matcher.policy().allow_first;
  if (name_first || (name_counts && !by_rule(of_address) && of_address.reason != EgressReason::deny_rule))
    return by_name;
  const bool says_more = !of_address.allowed && of_address.reason == EgressReason::deny_mode &&
                         by_name.verdict.reason == EgressReason::deny_port;
  if (says_more) return by_name;
  return {std::move(of_address), by_name.name, false};
}

}  // namespace

FlowDecision decide_tls(const EgressMatcher& matcher, const Destination& to, const std::string& name) {
  return decide_named(matcher, to, name, matcher.name(name, to.port, EgressProtocol::tls),
                      matcher.address(to.address, to.port, EgressProtocol::tls));
}

FlowDecision decide_nameless(const EgressMatcher& matcher, const Destination& to, EgressReason reason,
                             EgressProtocol spoken) {
  FlowDecision decision = decide_by_destination(matcher, to, spoken, false);
  if (to.synthetic || (!decision.verdict.allowed && decision.verdict.reason != EgressReason::deny_rule))
    decision.verdict = refuse(reason, std::move(decision.verdict.rule));
  return decision;
}

FlowDecision decide_tcp(const EgressMatcher& matcher, const Destination& to) {
  return decide_by_destination(matcher, to, EgressProtocol::tcp, true);
}

FlowDecision decide_http(const EgressMatcher& matcher, const Destination& to,
                         const RequestQuestion& request) {
  const bool idle = request.method.empty();
  EgressVerdict of_address = idle ? matcher.address(to.address, to.port, EgressProtocol::http)
                                  : matcher.http(to.address, to.port, request.method, request.path);
  if (request.name.empty()) {
    if (to.synthetic) return {refuse(EgressReason::deny_no_name), {}, false};
    return {std::move(of_address), {}, false};
  }
  EgressVerdict of_name = idle ? matcher.name(request.name, to.port, EgressProtocol::http)
                               : matcher.http(request.name, to.port, request.method, request.path);
  return decide_named(matcher, to, request.name, std::move(of_name), std::move(of_address));
}

}  // namespace space::netd
