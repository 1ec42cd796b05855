// Kernel modules of the initramfs.
#pragma once

#include <string>

#include "base/result.h"

namespace space::guest {

// Loads every *.ko of `folder` in the order of their names, which is the order they depend on each other.
Result<void> load_modules(const std::string& folder);

}  // namespace space::guest
