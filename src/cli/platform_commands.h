// `space up`, `space down`, `space doctor`: the commands that work on this machine itself.
#pragma once

#include "cli/options.h"

namespace space::cli {

int command_up(const CommonOptions& common, UpOptions options, bool state_given, bool run_given,
               bool listen_given);
// What an E2B SDK needs to find this SPACE, as lines for a shell. Prints the API key.
int command_env(const CommonOptions& common);
int command_down(const CommonOptions& common, const DownOptions& options);

}  // namespace space::cli
