// Who this guest is: host name, machine id, generation. Renewed for every copy of a snapshot.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace space::guest {

// Letters, digits and '-', at most 63; what sethostname and /etc/hosts can hold.
bool is_host_name(std::string_view name);
// `hosts` with 127.0.1.1 naming `host_name`, so that sudo and others find it without asking a name server.
// Pure.
std::string hosts_with_name(std::string_view hosts, std::string_view host_name);

// Sets the host name and, when `sandbox_id` is not the one of the last call, a fresh /etc/machine-id and the
// next number in /run/space/generation, which programs that keep randomness of their own may watch.
Result<void> take_identity(std::string_view sandbox_id, std::string_view host_name);

}  // namespace space::guest
