// Kernel same-page merging: with it a guest tells by timing what is in another guest's memory. Where the
// kernel has it switched on, no VM is started.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace space {

class KsmSwitch {
 public:
  // Opened once, so that it stays readable to a process that gives up its view of files afterwards.
  explicit KsmSwitch(const std::string& path = "/sys/kernel/mm/ksm/run");

  // unavailable while it merges pages, or when that cannot be told. A kernel without the switch has no KSM.
  Result<void> check_off() const;

 private:
  Fd file_;
  int error_ = 0;  // why there is no file
};

}  // namespace space
