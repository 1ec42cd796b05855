// btrfs subvolumes, by descriptor of the parent folder and one name. They need CAP_SYS_ADMIN.
#pragma once

#include <string>

#include "base/result.h"

namespace space::priv {

Result<void> create_subvolume(int parent, const std::string& name);
// `error`; one for want of room says what to do. Free bytes, asked for before, are an estimate.
std::unexpected<Error> explained(Error error);
// A writable copy of the subvolume behind `source`, durable when it returns.
Result<void> snapshot_subvolume(int source, int parent, const std::string& name);
// Durable when it returns, and all that was done before to any folder of the pool. At once when it is so.
Result<void> set_read_only(int subvolume);
// Success when there is none. The name is free at once; the space returns later, by the kernel's cleaner.
Result<void> delete_subvolume(int parent, const std::string& name);

}  // namespace space::priv
