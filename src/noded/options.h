// The command line of space-noded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "priv/layout.h"

namespace space::noded {

struct Options {
  priv::Layout layout{"/var/lib/space", "/run/space"};
  uid_t client = 0;
  std::uint64_t pool_mib_max = 0;
  std::string vmm_program = "/usr/bin/qemu-system-x86_64";
  bool unmount_pool = false;
  bool kill_vms = false;  // before the pool is unmounted, instead of refusing
};

Result<Options> parse_options(int argc, char** argv);

}  // namespace space::noded
