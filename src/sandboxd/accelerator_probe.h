// AcceleratorProbe: KVM where it works, software emulation (TCG) everywhere else. vmm/accelerator.h decides;
// here a guest is booted when the decision needs one, as any sandbox is, and the outcome remembered.
#pragma once

#include <optional>
#include <string>

#include "sandboxd/machine.h"
#include "sandboxd/templates.h"

namespace space {

class AcceleratorProbe {
 public:
  // `record_path`: where the outcome is kept. `forced`: an operator's choice, taken without a probe.
  AcceleratorProbe(Machine::Host host, Templates& templates, std::string record_path,
                   std::optional<MachineAccelerator> forced);

  // The best known at once.
  MachineAccelerator known() const { return chosen_.value_or(MachineAccelerator::tcg); }
  bool decided() const { return chosen_.has_value(); }  // false: it may still become KVM
  // Waits for the probe; starts it where one is needed, none has been made and a template is there to boot.
  Task<MachineAccelerator> get();

 private:
  Task<void> decide();
  // nullopt: could not be tried.
  Task<std::optional<bool>> kvm_boots(std::string template_digest);
  void remember(bool kvm_works, std::string boot_id) const;

  Machine::Host host_;
  Templates& templates_;
  std::string record_path_;
  std::optional<MachineAccelerator> chosen_;
  bool deciding_ = false;
  Event decided_;
};

}  // namespace space
