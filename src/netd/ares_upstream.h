// DnsUpstream over c-ares: UDP, and TCP when an answer does not fit or looks forged.
#pragma once

#include <memory>
#include <vector>

#include "netd/resolver.h"

namespace space::netd {

// The resolvers are asked in this order; one that stays silent goes to the end. None: every question fails.
std::unique_ptr<DnsUpstream> make_ares_upstream(const Executor& executor,
                                                std::vector<ResolverEndpoint> resolvers);

}  // namespace space::netd
