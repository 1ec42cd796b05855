// Names of the reverse zones: which address somebody asks the name of. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "core/ip_address.h"

namespace space::netd {

// "4.3.2.1.in-addr.arpa" is 1.2.3.4/32, "2.1.in-addr.arpa" 1.2.0.0/16; likewise below ip6.arpa. nullopt: the
// name is in neither zone, or is no address. `canonical`: lower case, no dot at the end.
std::optional<Cidr> block_of_reverse_name(std::string_view canonical);

}  // namespace space::netd
