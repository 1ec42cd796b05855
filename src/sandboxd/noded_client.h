// NodedClient: the verbs of space-noded (api/noded.h) as coroutines.
//
// Every verb is idempotent, so a call whose connection breaks (the node manager was restarted) is sent again
// on the next connection, until its deadline. Calls may overlap. Belongs to the loop; outlives every call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/noded.h"
#include "base/fd.h"
#include "core/io_limits.h"
#include "core/reconcile.h"
#include "core/start_plan.h"
#include "net/noded_link.h"
#include "net/task.h"
#include "sandboxd/isolation.h"

namespace space {

struct PoolInfo {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct Vmm {
  Fd pidfd;  // readable when it ends
  pid_t pid = 0;
};

struct VmmExit {
  bool known = false;  // false: its supervisor went first, the rest says nothing
  int signal = 0;      // 0: exited by itself
  int status = 0;
  bool out_of_memory = false;
};
// "its VMM was killed by signal 9"
std::string describe(const VmmExit& exit);

// Of one snapshot (api/noded.h): writable while it is made, else read only.
struct SnapshotFiles {
  Fd memory, state;  // none of a disk snapshot
  Fd manifest;
  Fd disk;  // none while it is made
};

// Of a running VMM's process, read only.
struct VmmMemory {
  Fd mem, maps, pagemap;
};

struct KernelHoldings {
  std::map<std::string, Holdings> sandboxes;                    // by id
  std::map<std::string, std::vector<std::uint64_t>> snapshots;  // finished ones by sandbox id, ascending
  std::vector<std::string> templates;                           // digests
};

class NodedClient {
 public:
  // `limits` go with every disk and slot.
  NodedClient(Executor executor, std::string socket_path, IoLimits limits = {});
  ~NodedClient();
  NodedClient(const NodedClient&) = delete;
  NodedClient& operator=(const NodedClient&) = delete;

  Task<Result<PoolInfo>> pool_info(Deadline deadline);
  Task<Result<KernelHoldings>> list(Deadline deadline);

  Task<Result<void>> template_import(std::string digest, Deadline deadline);  // returns after the copy
  Task<Result<std::string>> template_manifest(std::string digest, Deadline deadline);
  Task<Result<void>> template_remove(std::string digest, Deadline deadline);

  Task<Result<void>> disk_create(std::string id, std::string digest, std::int64_t disk_mib,
                                 Deadline deadline);
  Task<Result<void>> disk_remove(std::string id, Deadline deadline);
  // The disk becomes that of snapshot `number` of `source`. conflict while its VMM runs.
  Task<Result<void>> disk_restore(std::string id, std::string source, std::uint64_t number,
                                  Deadline deadline);
  Task<Result<void>> slot_create(std::string id, Deadline deadline);
  Task<Result<void>> slot_remove(std::string id, Deadline deadline);
  // Puts back what is missing of it; true: something was. not_found, conflict: its VM must end (api/noded.h).
  Task<Result<bool>> slot_check(std::string id, Deadline deadline);

  // The listening sockets stay the caller's.
  Task<Result<Vmm>> vmm_launch(std::string id, effect::LaunchVmm machine, std::uint64_t tsc_khz,
                               int qmp_listener, int channel_listener, Deadline deadline);
  Task<Result<Vmm>> vmm_open(std::string id,
                             Deadline deadline);  // not_found: none runs; unavailable: it just begins or ends
  Task<Result<void>> vmm_kill(std::string id, Deadline deadline);
  Task<Result<VmmExit>> vmm_exit(
      std::string id, Deadline deadline);  // not_found: runs, or never ran; unavailable: just ended
  Task<Result<void>> vmm_forget(std::string id, Deadline deadline);  // conflict: processes are left
  // not_found: none runs; unavailable: it just begins or ends.
  Task<Result<std::vector<IsolationLayer>>> vmm_isolation(std::string id, Deadline deadline);
  Task<Result<VmmMemory>> vmm_open_memory(std::string id, Deadline deadline);

  // Copies the disk as it is now. `previous` 0: the memory starts as what the VMM was launched with.
  Task<Result<SnapshotFiles>> snapshot_begin(std::string id, std::uint64_t number, std::uint64_t previous,
                                             Deadline deadline);
  // Of the disk only, with or without a VMM; the manifest, writable and empty. Finished with goes_on = false.
  Task<Result<Fd>> snapshot_begin_disk(std::string id, std::uint64_t number, Deadline deadline);
  // `goes_on`: another one will start from its memory; noded stays busy with the sandbox for a moment after.
  Task<Result<void>> snapshot_finish(std::string id, std::uint64_t number, Deadline deadline,
                                     bool goes_on = true);
  Task<Result<SnapshotFiles>> snapshot_open(std::string id, std::uint64_t number, Deadline deadline);
  Task<Result<void>> snapshot_remove(std::string id, std::uint64_t number, Deadline deadline);

 private:
  struct Answer {
    std::uint64_t values[noded::values_count] = {};
    std::vector<Fd> fds;  // exactly as many as were expected
  };
  // An answer with another number of descriptors than `expected` is an error; any_number: the caller looks.
  static constexpr std::size_t any_number = ~std::size_t{0};
  Task<Result<Answer>> call(noded::Request request, std::vector<int> fds, std::size_t expected,
                            Deadline deadline);
  Task<Result<void>> command(noded::Request request, Deadline deadline);

  Executor executor_;
  std::string socket_path_;
  IoLimits limits_;
  std::shared_ptr<NodedLink> link_;
  std::uint64_t sequence_ = 0;
};

}  // namespace space
