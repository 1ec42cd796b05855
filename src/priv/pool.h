// The pool: one btrfs in a sparse file, mounted at <state>/pool.
//   templates/<digest>/  read-only subvolumes     sandboxes/<id>/  subvolumes
//   snapshots/<id>/<number>/  read-only subvolumes of what sandboxes were
//   zero/<MiB>.raw       empty memory images, shared by all VMs of that size
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "priv/layout.h"

namespace space::priv {

inline constexpr std::uint64_t pool_mib_default = 64 * 1024;
inline constexpr std::uint64_t pool_mib_min = 256;

class Pool {
 public:
  // Makes what is missing (file of at most `mib_max`, file system, mount, folders) and uses what is there,
  // whatever an earlier process left half done.
  static Result<Pool> open(const Layout& layout, std::uint64_t mib_max);

  int templates() const { return templates_.get(); }
  int sandboxes() const { return sandboxes_.get(); }
  int snapshots() const { return snapshots_.get(); }

  struct Space {
    std::uint64_t free_bytes;
    std::uint64_t total_bytes;
  };
  Result<Space> space() const;
  // exhausted once only the reserve is left.
  Result<void> require_room() const;
  // A read-only file of zeros, `mib` long, readable by everybody who is handed it.
  Result<Fd> open_zero_memory(std::uint64_t mib) const;

 private:
  Result<void> remove_half_made() const;

  Fd root_, templates_, sandboxes_, snapshots_, zero_;
};

// Unmounts; the loop device goes with it. Success when it is not mounted.
Result<void> unmount_pool(const Layout& layout);

// Pure: what new disks leave free, so that sandboxes that run can go on writing and deleting always works.
std::uint64_t pool_reserve_bytes(std::uint64_t total_bytes);

// Pure: the size of a new pool on a disk with `free_mib` left. The file is sparse, but a promise of more
// than there is would end as I/O errors inside sandboxes instead of a full disk that is seen coming.
Result<std::uint64_t> choose_pool_mib(std::uint64_t free_mib, std::uint64_t mib_max);

}  // namespace space::priv
