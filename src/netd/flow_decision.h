// What becomes of one flow: allowed or not, and where it goes to. Pure; core/egress_matcher.h knows the
// rules, here they are put to what a flow says about itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/egress_matcher.h"

namespace space::netd {

// Where the guest connected to, and the names it was told for that address.
struct Destination {
  IpAddress address;
  std::uint16_t port = 0;
  std::vector<std::string> names;
  bool synthetic = false;  // the address stands for its one name and is none that can be dialled
};

struct FlowDecision {
  EgressVerdict verdict;
  std::string name;      // canonical; what the flow is for, "" when only its address is known
  bool resolve = false;  // dial `name` as the gateway resolves it; otherwise the destination's address
};

// A flow that names its server (TLS).
FlowDecision decide_tls(const EgressMatcher& matcher, const Destination& to, const std::string& name);
// One that should but does not: `reason` is why there is no name, `spoken` what it is all the same.
FlowDecision decide_nameless(const EgressMatcher& matcher, const Destination& to, EgressReason reason,
                             EgressProtocol spoken = EgressProtocol::tls);
// One of which nothing is read.
FlowDecision decide_tcp(const EgressMatcher& matcher, const Destination& to);

// A request in plain HTTP. `name` is "" when its Host is an address. Without a method: the connection itself,
// between two requests.
struct RequestQuestion {
  std::string name;
  std::string method, path;
};
FlowDecision decide_http(const EgressMatcher& matcher, const Destination& to, const RequestQuestion& request);

}  // namespace space::netd
