// The ssh server's host keys, made anew for a disk that is a copy of another's.
#pragma once

#include "guest/hooks.h"

namespace space::guest {

// Removes the keys of `folder` and makes new ones of the same kinds; ed25519 and ecdsa when there are none
// but the server's program is there. Whatever fails, no old key stays. An ssh server that runs keeps its old
// keys in its memory until it is started again: a hook can do that.
Task<Result<void>> renew_host_keys(HookSurroundings around, std::string folder = "/etc/ssh",
                                   std::string server = "/usr/sbin/sshd");

}  // namespace space::guest
