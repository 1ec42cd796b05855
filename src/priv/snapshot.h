// Snapshots: what a sandbox's disk and memory were at one instant, snapshots/<sandbox id>/<number>/. A
// finished one is a read-only subvolume:
//   disk.raw, vmlinuz, initramfs.img   as in the sandbox's
//   manifest.json                      space-sandboxd's: nothing in this process reads it, or vmstate
// and, unless it is of the disk only,
//   mem.raw                            the guest's memory and as long; what VMs made from it map
//   vmstate                            space-sandboxd's
//   vmm                                name of the bundle (bundle.h) that saved it and alone can load it
// A sandbox made from one with memory has beside its own files
//   origin             which one: "<sandbox id>/<number>"
//   mem.raw, memory    a reflink of some snapshot's memory and which: cloning the file costs time by its
//   pieces, and
//                      the next snapshot is begun while the VM stands still
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "priv/permit.h"
#include "priv/pool.h"
#include "priv/vmm_record.h"

namespace space::priv {

struct SnapshotFiles {
  Fd memory, state;  // none when it is of the disk only; as it is begun, memory is what was removed from it
  Fd manifest;
  Fd disk;  // none while it is made
};

// A writable copy of the sandbox as it is now, under a half-made name; takes the place of an unfinished one.
// Its memory starts as that of snapshot `previous` of the same sandbox, or with 0 as what the VM was launched
// with; without `vmm` it is of the disk only. memory is open for reading and writing, the others, empty, for
// writing. conflict when it is finished.
Result<SnapshotFiles> begin_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number,
                                     std::uint64_t previous, const VmmFacts* vmm);
// Durable when it returns; what was written into the files is the writer's to sync. Success when it is
// finished.
Result<void> finish_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number);
// So that the next one can start from this one without cloning, which takes up to a second here: for after
// the answer.
Result<void> keep_memory(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number);
// Read only. not_found when it is not finished.
Result<SnapshotFiles> open_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number);
// Finished or not; success when there is none. Whoever has its files open or mounted keeps them.
Result<void> remove_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number);

// Its disk, of a finished one, read only.
Result<Fd> open_snapshot_disk(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number);

// The sandbox's disk, if any, gives way to that of snapshot `number` of `source`. Its VMM does not run.
Result<void> restore_disk(const Pool& pool, const SandboxPermit& sandbox, const SandboxPermit& source,
                          std::uint64_t number, uid_t uid);

// What a VM goes on from: the snapshot that the sandbox's disk came from.
struct RestorePoint {
  Fd memory;           // the very file, shared by all VMs that come from it
  std::string bundle;  // name
};
// not_found when the disk came from no snapshot or that one is gone; invalid_argument when its memory has
// another size.
Result<RestorePoint> find_restore_point(const Pool& pool, const SandboxPermit& sandbox,
                                        std::uint64_t memory_mib);

struct SnapshotName {
  std::string sandbox;
  std::uint64_t number;
};
// Finished ones; order undefined. Looks only.
Result<std::vector<SnapshotName>> snapshots_in(const Pool& pool);
// Names of bundles, some more than once.
Result<std::vector<std::string>> bundles_of_snapshots(const Pool& pool);

}  // namespace space::priv
