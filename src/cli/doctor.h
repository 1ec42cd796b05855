// `space doctor`: looks at this machine for everything SPACE needs and says, for each thing that is wrong,
// what it means and what to do. Each check is one pure-looking function over a root folder, so that tests can
// break one.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace space::cli {

enum class Verdict : unsigned char { good, warning, bad };

struct Finding {
  std::string check;  // "KVM", "btrfs", …
  Verdict verdict = Verdict::good;
  std::string seen;    // what was found, one line
  std::string advice;  // what to do; empty when good
};

// Facts of the machine below `root` ("" is the real one).
std::vector<Finding> examine_machine(const std::string& root, const Directories& directories);
// The running installation: daemons, API, node, template.
std::vector<Finding> examine_installation(const CommonOptions& common, const Directories& directories);

int command_doctor(const CommonOptions& common, const Directories& directories);

}  // namespace space::cli
