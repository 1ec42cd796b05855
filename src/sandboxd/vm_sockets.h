// The listening unix sockets of one VM's QMP and channel, in a folder of mode 0700. QEMU inherits them and
// accepts on them, so a restarted sandbox manager finds a running VM again by connecting to a name it knows.
#pragma once

#include <string>

#include "base/fd.h"

namespace space {

struct VmSockets {
  Fd qmp;
  Fd channel;
};

inline std::string qmp_path(const std::string& folder) {
  return folder + "/qmp.sock";
}
inline std::string channel_path(const std::string& folder) {
  return folder + "/channel.sock";
}

// Makes `folder` (its parent exists) and both sockets anew.
Result<VmSockets> open_vm_sockets(const std::string& folder);
// Also when there is nothing.
Result<void> remove_vm_sockets(const std::string& folder);

}  // namespace space
