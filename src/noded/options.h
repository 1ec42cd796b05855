// The command line of space-noded.
#pragma once

#include <sys/types.h>

#include <map>

#include "base/result.h"
#include "noded/door.h"
#include "noded/verbs.h"
#include "priv/layout.h"

namespace space::noded {

struct Options {
  priv::Layout layout{"/var/lib/space", "/run/space"};
  std::map<uid_t, Client> clients;
  Settings settings{.vmm_program = "/usr/bin/qemu-system-x86_64"};
  bool unmount_pool = false;
  bool kill_vms = false;  // before the pool is unmounted, instead of refusing
};

Result<Options> parse_options(int argc, char** argv);

}  // namespace space::noded
