// A sandbox's disk: a writable clone of a template, sandboxes/<id>/. Its disk.raw belongs to the sandbox's
// uid; that ownership is the only record of which uid a sandbox has.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "priv/permit.h"
#include "priv/pool.h"

namespace space::priv {

struct Disk {
  uid_t uid;
  std::uint64_t mib;
};

Result<Disk> find_disk(const Pool& pool, const std::string& id);  // looks only, and takes any name
// Appears whole or not at all. `mib` is at least the template's.
Result<void> create_disk(const Pool& pool, const SandboxPermit& sandbox, const TemplatePermit& source,
                         std::uint64_t mib, uid_t uid);
// Success when there is none.
Result<void> remove_disk(const Pool& pool, const SandboxPermit& sandbox);
// One of the files that came with the template.
Result<Fd> open_disk_file(const Pool& pool, const SandboxPermit& sandbox, const char* name, int flags);
// A file of its own to write to, with what `source` holds, in the sandbox's subvolume: gone with its last
// descriptor.
Result<Fd> clone_without_name(const Pool& pool, const SandboxPermit& sandbox, const Fd& source);

}  // namespace space::priv
