// `space doctor`: looks at this machine and installation for everything SPACE needs and says, for each thing
// that is wrong, what was seen, what it means and what to do. The checks are in doctor/.
#pragma once

#include "cli/options.h"

namespace space::cli {

// 0: nothing is bad; 1 otherwise.
int command_doctor(const CommonOptions& common, const DoctorOptions& options);

}  // namespace space::cli
