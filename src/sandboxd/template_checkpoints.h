// TemplateCheckpoints: for each template and shape the VM that its sandboxes begin as: booted, warmed,
// frozen, captured. It is snapshot 1 of a builder, a sandbox that lives no longer than that and that no
// journal knows.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "sandboxd/checkpoint.h"
#include "sandboxd/templates.h"
#include "sandboxd/vm_source.h"

namespace space {

class TemplateCheckpoints {
 public:
  // All outlive it.
  struct Parts {
    Machine::Host host;
    Journal& journal;
    Templates& templates;
    CheckpointDesk& desk;
    Turnstile& starts;
  };
  explicit TemplateCheckpoints(Parts parts);

  // Once, at the start: those that were written down, are on the pool and can be restored here.
  Task<Result<void>> take_over(const KernelHoldings& held, MachineAccelerator accelerator);

  std::optional<SnapshotId> find(const VmKind& kind) const;
  // Makes it where it is not; joins one under way. Takes as long as a boot.
  Task<Result<SnapshotId>> ensure(VmKind kind, MachineAccelerator accelerator);
  // Nothing begins from them any more; they stay on the pool while `needed` says so.
  void retire(const std::string& template_digest);
  bool is_builder(const std::string& id) const { return builders_.contains(id); }
  // Removes retired ones that `needed` (all that sandboxes were restored from) does not name.
  Task<void> collect(std::set<SnapshotId> needed);
  // What a checkpoint of such a sandbox says of it.
  vmm::SnapshotManifest describe(const SandboxRecord& record) const;

 private:
  Task<Result<SnapshotId>> build(VmKind kind, MachineAccelerator accelerator);
  Task<Result<void>> capture(std::shared_ptr<Machine> machine, SandboxRecord record);
  Task<Result<void>> check(SnapshotId snapshot, MachineAccelerator accelerator);

  Parts parts_;
  std::map<VmKind, SnapshotId> ready_;
  std::set<VmKind> under_way_;
  std::set<std::string> builders_;  // those at work
  std::set<SnapshotId> retired_;
  Event built_;
};

}  // namespace space
