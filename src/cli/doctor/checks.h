// The checks of `space doctor`, by what they look at. Each section is a list of findings, good ones included.
#pragma once

#include <string>
#include <vector>

#include "cli/config_file.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/machine.h"
#include "cli/options.h"

namespace space::cli::doctor {

// What this installation is told to be.
struct Installation {
  Directories directories;
  std::string listen = "127.0.0.1:3000";
  std::string config = "/etc/space/space.toml";  // the file that was read
  std::string key_file;                          // where `space up` leaves the operator's API key
};

Section kernel_section(const Machine& machine, const Installation& installation);
Section resource_section(const Machine& machine, const Installation& installation);
Section software_section(const Machine& machine, const Installation& installation);
Section hardening_section(const Machine& machine);
Section folder_section(const Machine& machine, const Installation& installation);
Section pool_section(const Machine& machine, const Installation& installation);
Section daemon_section(const Machine& machine, const Installation& installation);

// All of them, in this order. What only root can see is left out for anybody else.
std::vector<Section> examine(const Machine& machine, const Installation& installation);

}  // namespace space::cli::doctor
