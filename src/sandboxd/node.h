// Node: every part of the sandbox manager, put together.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "core/io_limits.h"
#include "sandboxd/daemon_program.h"
#include "sandboxd/rpc.h"

namespace space {

struct NodeOptions {
  std::string state_folder = "/var/lib/space";
  std::string run_folder = "/run/space";
  std::optional<MachineAccelerator> accelerator;  // unset: probe
  std::int64_t sample_interval_s = 30;            // between two looks at a guest nobody watches
  std::int64_t memory_limit_mib = 0;              // promised to sandboxes at most; 0: by the machine's size
  bool allow_tcg_multitenant = false;             // core/tenancy.h
  IoLimits io_limits;                             // of each sandbox
  std::string version = "0";                      // of this build
  std::string daemon_path;                        // of the guest's daemon, "": guests keep theirs
  WarmPool::Options pool;
  std::int64_t hot_keep_s = 300;                   // a paused sandbox stays in memory
  std::int64_t shutdown_limit_s = 60;              // in which a planned end keeps what runs
  RecoveryPolicy recovery = RecoveryPolicy::disk;  // of sandboxes that name none
  std::int64_t slot_check_s = 10;                  // between two looks at the network slots
  std::int64_t fork_keep_s = 600;  // how long others may begin from a snapshot made for a fork
};

class Node {
 public:
  // Takes the state folder for itself; conflict when another process has it.
  static Result<std::unique_ptr<Node>> open(const Executor& executor, NodeOptions options);

  // Reconciles, then serves the control plane until the loop stops.
  Task<void> run();
  // A planned end: what runs is kept and comes back with the next start.
  Task<void> shut_down();

 private:
  Node(const Executor& executor, const NodeOptions& options, Fd lock, Journal journal, std::uint64_t tsc_khz,
       std::optional<DaemonProgram> daemon);
  Task<void> probe_accelerator();

  NodeOptions options_;
  Fd lock_;
  Journal journal_;
  EventLog events_;
  SandboxLogs logs_;
  NodedClient noded_;
  NetdClient netd_;
  std::optional<DaemonProgram> daemon_;
  Machine::Host host_;
  Templates templates_;
  Manager manager_;
  AcceleratorProbe accelerator_;
  NodeRpc rpc_;
};

}  // namespace space
