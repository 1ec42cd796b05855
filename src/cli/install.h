// Where the installation keeps its other parts, and running one of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace space::cli {

// A program beside this executable (space-noded, space-daemon, …).
Result<std::string> sibling_program(const std::string& name);
// The folder with build.sh and the recipes: /usr/share/space/images, or images/ of the checkout this was
// built in.
Result<std::string> images_folder();
// Runs a program to its end and answers its standard output (at most 1 MiB); its standard error is ours.
Result<std::string> run_program_capture(const std::vector<std::string>& argv);

}  // namespace space::cli
