// Who this guest is: host name, machine id, boot id, generation. Renewed for every copy of a snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace space::guest {

// Letters, digits and '-', at most 63; what sethostname and /etc/hosts can hold.
bool is_host_name(std::string_view name);
// `hosts` with 127.0.1.1 naming `host_name`, so that sudo and others find it without asking a name server.
// Pure.
std::string hosts_with_name(std::string_view hosts, std::string_view host_name);

// What an identity was new to.
struct IdentityNews {
  bool memory = false;  // this memory was another sandbox's, or the machine has just booted
  bool disk = false;    // this disk was another sandbox's, or is a template's
};
// Sets the host name. Where `sandbox_id` is new to the disk: a fresh /etc/machine-id (D-Bus's copy too);
// where it is new to the memory: a fresh boot_id. All is tried; the error is the first. Blocks as long as
// /etc does.
Result<IdentityNews> take_identity(std::string_view sandbox_id, std::string_view host_name);

// Replaces /run/space/generation, which programs that keep randomness of their own may watch: a new file is
// renamed over it, so that nobody reads half a number. Nothing happens when it holds `generation` already.
Result<void> set_generation(std::uint64_t generation);
// The same with the number after the one that is there.
Result<void> next_generation();

}  // namespace space::guest
