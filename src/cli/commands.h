// The commands that talk to the API. Each answers the process's exit code.
#pragma once

#include <string>

#include "cli/options.h"

namespace space::cli {

int command_create(const CommonOptions& common, const CreateOptions& options);
int command_run(const CommonOptions& common, const RunOptions& options);
int command_exec(const CommonOptions& common, const ExecOptions& options);
int command_list(const CommonOptions& common);
int command_info(const CommonOptions& common, const std::string& sandbox);
int command_kill(const CommonOptions& common, const std::vector<std::string>& sandboxes);

int command_template_build(const CommonOptions& common, const TemplateBuildOptions& options);
int command_template_list(const CommonOptions& common);
int command_template_remove(const CommonOptions& common, const std::string& name);

}  // namespace space::cli
