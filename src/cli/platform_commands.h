// `space up`, `space down`, `space doctor`: the commands that work on this machine itself.
#pragma once

#include "cli/options.h"

namespace space::cli {

int command_up(const CommonOptions& common, UpOptions options, bool state_given, bool run_given,
               bool listen_given);
int command_down(const CommonOptions& common, const DownOptions& options);

}  // namespace space::cli
