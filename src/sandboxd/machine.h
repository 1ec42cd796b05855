// Machine: the host side of one sandbox's virtual machine. Executes a start plan's effects and their undos,
// and knows when the VMM dies. Serial by its owner: one effect or undo at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sandboxd/channel_link.h"
#include "sandboxd/guest_wake.h"
#include "sandboxd/netd_client.h"
#include "sandboxd/noded_client.h"
#include "sandboxd/plan_runner.h"
#include "sandboxd/vm_sockets.h"
#include "vmm/qmp.h"
#include "vmm/snapshot_manifest.h"

namespace space {

class DaemonProgram;

class Machine final : public PlanExecutor, public std::enable_shared_from_this<Machine> {
 public:
  struct Host {
    Executor executor;
    NodedClient& noded;  // both outlive the machine
    NetdClient& netd;
    std::string vm_folder;  // holds a folder of sockets for each VM
    std::uint64_t tsc_khz = 0;
    const DaemonProgram* daemon = nullptr;  // for guests with an older one; nullptr: they keep theirs
    std::string cpu_tcg, cpu_kvm;           // as a guest sees the processor (vmm/snapshot_manifest.h)

    const std::string& cpu_model(MachineAccelerator accelerator) const {
      return accelerator == MachineAccelerator::kvm ? cpu_kvm : cpu_tcg;
    }
  };

  // `changed`: the VMM died, or the channel's hooks of the same name.
  Machine(Host host, std::string id, ChannelLink::Hooks hooks);

  // For the effects that tell the guest something.
  void set_guest_init(GuestInit init) { guest_init_ = std::move(init); }
  void set_wake(GuestWake wake) { wake_ = std::move(wake); }
  // What it may reach, from its next open_gateway on; nothing until then.
  void set_egress(Egress egress) { egress_ = std::move(egress); }
  // Begins to tell the gateway; a plan has an effect for that.
  void open_gateway();
  // How that ended.
  Task<Result<void>> await_gateway(Deadline deadline);
  // Something of its network slot was missing and was put back.
  void note_repair(std::string reason) { repair_ = std::move(reason); }
  NetworkState network() const;
  // Ends the VMM for `cause`, which is then that of its death.
  Task<void> end(std::string cause);

  Task<Result<void>> apply(Effect effect, Deadline deadline) override;
  Task<Result<void>> undo(Undo undo) override;

  // Takes over a VMM that runs already: watches it and keeps its channel attached. not_found: none runs.
  Task<Result<void>> adopt();
  // Watches and keeps attached what a plan has started.
  void keep() {
    kept_ = true;
    channel_->keep();
  }
  // Standing still. quiesce: the guest has frozen its user programs, after a flush if `sync`; false: it did
  // not in time, or cannot be asked.
  Task<bool> quiesce(bool sync);
  Task<Result<void>> stop_vcpus(Deadline deadline);
  Task<Result<void>> cont_vcpus(Deadline deadline);
  // Goes on where something stopped it that is over: a daemon that died in the middle of a pause.
  Task<Result<void>> ensure_running(Deadline deadline);
  // One call that tells a guest all of `wake`; the first thing after it stood still.
  Task<Result<void>> wake(GuestWake wake, Deadline deadline);
  // What the guest said of itself at the last wake; hostile text, bounded.
  const std::string& daemon_version() const { return daemon_version_; }
  // The user programs go on. A guest that does not hear it is not answering anything: the channel's affair.
  Task<void> thaw();
  // The guest's disk is whole and stands still from the answer true until thaw_disk, at most 10 s: then the
  // guest thaws it by itself. false: it was not frozen in time, or the guest cannot be asked. Programs run on
  // until they write.
  Task<bool> freeze_disk(Deadline deadline);
  // true: the disk has stood still since freeze_disk, so a copy made meanwhile is whole; false: it has not,
  // or nobody knows. Idempotent; ends a freeze that is under way too.
  Task<bool> thaw_disk();
  // What differs between its second and its third disk, as the guest says it; it is given `time` for that.
  Task<Result<JsonObject>> diff(std::size_t limit, Millis time, Deadline deadline);
  // Lets the guest shut itself down and waits for the end of its VMM.
  Task<Result<void>> shut_down(Deadline deadline);
  // Starts what a first command would have to load; with `everything` also what most programs need.
  Task<Result<void>> warm(bool everything, Deadline deadline);
  Task<Result<std::string>> save_device_state(Deadline deadline);
  // Attaches the channel where it is not: after a pause that a new daemon found.
  Task<Result<void>> reattach(Deadline deadline);
  // While its vCPUs stand still nobody expects an answer of the guest.
  bool stands_still() const { return stands_still_; }
  // It was made for nobody and becomes the sandbox of these hooks.
  void rehook(ChannelLink::Hooks hooks);

  const Host& host() const { return host_; }
  std::string qemu_version() const { return qmp_ ? qmp_->server_version() : ""; }

  // Makes an effect that waits for the guest fail with `reason` at once.
  void interrupt(Error reason);

  bool launched() const { return launched_; }
  bool dead() const { return dead_; }
  // Its disk found no space on the pool: the VM stands still, and goes on by itself once there is some.
  bool out_of_disk() const { return out_of_disk_; }
  // What its guest wrote to its console since the last call. unavailable: the VMM cannot be asked at present.
  Task<Result<std::string>> console_text(Deadline deadline);
  // After the death: its cause, as far as the node manager can tell.
  Task<std::string> cause_of_death();
  pid_t pid() const { return pid_; }
  const std::shared_ptr<ChannelLink>& channel() const { return channel_; }

 private:
  struct Connecting;
  struct Opening;
  Task<void> tell_gateway(std::shared_ptr<Opening> opening);
  Task<Result<void>> open_sockets();
  Task<Result<void>> launch(effect::LaunchVmm spec, Deadline deadline);
  Task<Result<void>> connect_qmp(Deadline deadline);
  Task<void> reconnect_qmp();
  void on_event(vmm::QmpEvent event);
  Task<void> wait_for_disk();
  Task<Result<void>> set_identity(Deadline deadline);
  Task<Result<void>> init_guest(Deadline deadline);
  Task<Result<void>> load_state(effect::LoadState from, Deadline deadline);
  Task<Result<void>> ensure_qmp(Deadline deadline);
  Task<Result<void>> end_vmm();
  void watch(Vmm vmm);
  Task<void> watch_death(Fd pidfd);
  // `task`, unless the VMM dies or somebody interrupts first.
  Task<Result<void>> while_alive(Task<Result<void>> task);

  std::string folder() const { return host_.vm_folder + "/" + id_; }

  Host host_;
  std::string id_;
  std::function<void()> changed_;
  std::shared_ptr<ChannelLink> channel_;
  GuestInit guest_init_;
  GuestWake wake_;
  Egress egress_;
  std::shared_ptr<Opening> opening_;
  std::string repair_;
  std::string end_cause_;
  std::string daemon_version_;
  VmSockets sockets_;
  std::unique_ptr<vmm::Qmp> qmp_;
  bool connecting_qmp_ = false;
  Event qmp_connected_;
  bool guest_panicked_ = false;
  bool guest_reset_ = false;
  bool out_of_disk_ = false;
  bool disk_refused_ = false;      // since the run state was last asked for
  bool waiting_for_disk_ = false;  // wait_for_disk is under way
  pid_t pid_ = 0;
  bool launched_ = false;
  bool kept_ = false;  // started, or adopted
  bool dead_ = false;
  bool stands_still_ = false;
  MachineAccelerator accelerator_ = MachineAccelerator::tcg;  // launched with
  std::optional<Error> interruption_;
  Event interrupted_;
};

vmm::Accelerator to_vmm(MachineAccelerator accelerator);
// conflict with the reason: the snapshot whose manifest this is cannot go on on this machine.
Result<void> check_restorable_here(const Machine::Host& host, const Fd& manifest,
                                   MachineAccelerator accelerator);
Result<void> check_restorable_here(const Machine::Host& host, const vmm::SnapshotManifest& manifest,
                                   MachineAccelerator accelerator);
// Of a snapshot's manifest.json. invalid_argument: it is damaged.
Result<vmm::SnapshotManifest> read_manifest(const Fd& manifest);

}  // namespace space
