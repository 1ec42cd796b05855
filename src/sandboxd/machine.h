// Machine: the host side of one sandbox's virtual machine. Executes a start plan's effects and their undos,
// and knows when the VMM dies. Serial by its owner: one effect or undo at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sandboxd/channel_link.h"
#include "sandboxd/guest_init.h"
#include "sandboxd/noded_client.h"
#include "sandboxd/plan_runner.h"
#include "sandboxd/vm_sockets.h"
#include "vmm/qmp.h"

namespace space {

class Machine final : public PlanExecutor, public std::enable_shared_from_this<Machine> {
 public:
  struct Host {
    Executor executor;
    NodedClient& noded;     // outlives the machine
    std::string vm_folder;  // holds a folder of sockets for each VM
    std::uint64_t tsc_khz = 0;
  };

  // `changed`: the VMM died, or the channel's hooks of the same name.
  Machine(Host host, std::string id, ChannelLink::Hooks hooks);

  void set_guest_init(GuestInit init) { guest_init_ = std::move(init); }

  Task<Result<void>> apply(Effect effect, Deadline deadline) override;
  Task<Result<void>> undo(Undo undo) override;

  // Takes over a VMM that runs already: watches it and keeps its channel attached. not_found: none runs.
  Task<Result<void>> adopt();
  // Watches and keeps attached what a plan has started.
  void keep() {
    kept_ = true;
    channel_->keep();
  }
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
  Task<Result<void>> open_sockets();
  Task<Result<void>> launch(effect::LaunchVmm spec, Deadline deadline);
  Task<Result<void>> connect_qmp(Deadline deadline);
  Task<void> reconnect_qmp();
  void on_event(vmm::QmpEvent event);
  Task<void> wait_for_disk();
  Task<Result<void>> set_identity(Deadline deadline);
  Task<Result<void>> init_guest(Deadline deadline);
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
  VmSockets sockets_;
  std::unique_ptr<vmm::Qmp> qmp_;
  bool guest_panicked_ = false;
  bool guest_reset_ = false;
  bool out_of_disk_ = false;
  bool disk_refused_ = false;      // since the run state was last asked for
  bool waiting_for_disk_ = false;  // wait_for_disk is under way
  pid_t pid_ = 0;
  bool launched_ = false;
  bool kept_ = false;  // started, or adopted
  bool dead_ = false;
  std::optional<Error> interruption_;
  Event interrupted_;
};

}  // namespace space
