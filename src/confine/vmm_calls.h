// Which system calls a VMM may make. Everything else ends it: derived by tracing QEMU 10 with our devices
// through boot, serial, block, network, stop, cont, state saved and loaded, migration through a descriptor,
// and quit.
#pragma once

#include <span>

#include "base/result.h"

namespace space::confine {

// For the calling process, for good. `program` is the number of the descriptor it will exec, once, by
// execveat(program, "", ..., AT_EMPTY_PATH); no other exec works.
Result<void> allow_vmm_system_calls(int program);

// Those that it may make with any arguments: whoever forks VMMs must be able to make them too.
std::span<const int> plain_vmm_system_calls();

}  // namespace space::confine
