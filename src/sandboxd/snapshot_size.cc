#include "sandboxd/snapshot_size.h"

#include "vmm/exclusive_bytes.h"

namespace space {

Task<Result<std::int64_t>> exclusive_bytes_of(NodedClient& noded, SnapshotId snapshot, Deadline deadline) {
  SPACE_CO_TRY(const SnapshotFiles files,
               co_await noded.snapshot_open(snapshot.sandbox, snapshot.number, deadline));
  const auto counted = co_await run_blocking([&]() -> Result<std::int64_t> {
    std::int64_t sum = 0;
    for (const Fd* file : {&files.memory, &files.state, &files.disk}) {
      if (!*file) continue;
      SPACE_TRY(const std::uint64_t bytes, vmm::exclusive_bytes(file->get(), deadline));
      sum += static_cast<std::int64_t>(bytes);
    }
    return sum;
  });
  co_return counted;
}

}  // namespace space
