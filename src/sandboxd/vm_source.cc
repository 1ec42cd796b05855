#include "sandboxd/vm_source.h"

namespace space {
namespace {

constexpr Millis open_limit{10'000};

}  // namespace

Task<Result<VmSource>> open_source(Machine::Host host, SnapshotId snapshot, SnapshotKind kind,
                                   MachineAccelerator accelerator) {
  SPACE_CO_TRY(const SnapshotFiles files, co_await host.noded.snapshot_open(snapshot.sandbox, snapshot.number,
                                                                            Deadline::after(open_limit)));
  SPACE_CO_TRY(const vmm::SnapshotManifest manifest, read_manifest(files.manifest));
  if (kind == SnapshotKind::full) SPACE_CO_CHECK(check_restorable_here(host, manifest, accelerator));
  co_return VmSource{{.snapshot = std::move(snapshot), .kind = kind, .host = EarlierHost::copied},
                     manifest.generation + 1};
}

}  // namespace space
