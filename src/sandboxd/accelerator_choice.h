// AcceleratorChoice: KVM where it works, software emulation (TCG) everywhere else.
//
// /dev/kvm may be there, open, create VMs and still hang every guest, so only a guest that boots counts: a
// probe VM is started as any sandbox is, with a deadline. The answer holds for one boot of the host and is
// remembered.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sandboxd/machine.h"
#include "sandboxd/templates.h"

namespace space {

class AcceleratorChoice {
 public:
  // `memory_path`: where the answer is kept. `forced`: an operator's choice, taken without a probe.
  AcceleratorChoice(Machine::Host host, Templates& templates, std::string memory_path,
                    std::optional<MachineAccelerator> forced);

  // The best known at once.
  MachineAccelerator known() const { return chosen_.value_or(MachineAccelerator::tcg); }
  // Waits for a probe; starts it where none has been made and a template is there to boot.
  Task<MachineAccelerator> get();

 private:
  Task<void> decide();
  // nullopt: could not be tried.
  Task<std::optional<MachineAccelerator>> probe(std::string template_digest);
  void recall();
  void remember();

  Machine::Host host_;
  Templates& templates_;
  std::string memory_path_;
  std::optional<MachineAccelerator> chosen_;
  bool deciding_ = false;
  Event decided_;
};

}  // namespace space
