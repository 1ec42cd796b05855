// The commands that talk to the API. Each answers the process's exit code.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/options.h"

namespace space::cli {

struct ProgramSpec;
ProgramSpec program_of(const ExecOptions& options);  // as `run` and `exec` start it

Json life_json(const std::string& life);  // as the API takes it

int command_create(const CommonOptions& common, const CreateOptions& options);
int command_run(const CommonOptions& common, const RunOptions& options);
int command_exec(const CommonOptions& common, const ExecOptions& options);
int command_shell(const CommonOptions& common, const ShellOptions& options);
int command_attach(const CommonOptions& common, const ProcessOptions& options);
int command_ps(const CommonOptions& common, const std::string& sandbox);
int command_kill_process(const CommonOptions& common, const ProcessOptions& options);
int command_copy(const CommonOptions& common, const CopyCommand& command);
int command_watch(const CommonOptions& common, const WatchOptions& options);
int command_forward(const CommonOptions& common, const ForwardOptions& options);
int command_url(const CommonOptions& common, const UrlOptions& options);
int command_list(const CommonOptions& common);
int command_info(const CommonOptions& common, const std::string& sandbox);
int command_kill(const CommonOptions& common, const std::vector<std::string>& sandboxes);

int command_move(const CommonOptions& common, const MoveOptions& options);
int command_fork(const CommonOptions& common, const ForkOptions& options);
int command_snapshot(const CommonOptions& common, const SnapshotOptions& options);
int command_snapshot_list(const CommonOptions& common, const std::string& sandbox);
int command_snapshot_change(const CommonOptions& common, const SnapshotChange& options);
int command_rollback(const CommonOptions& common, const RollbackOptions& options);
int command_schedule(const CommonOptions& common, const ScheduleOptions& options);
int command_recovery(const CommonOptions& common, const RecoveryOptions& options);
int command_history(const CommonOptions& common, const std::string& sandbox);
int command_diff(const CommonOptions& common, const DiffOptions& options);
int command_egress_show(const CommonOptions& common, const std::string& sandbox);
int command_egress_edit(const CommonOptions& common, const EgressEditOptions& options);
int command_egress_set(const CommonOptions& common, const EgressSetOptions& options);
int command_egress_test(const CommonOptions& common, const EgressTestOptions& options);
int command_egress_log(const CommonOptions& common, const EgressLogOptions& options);
int command_pool_list(const CommonOptions& common);
int command_pool_set(const CommonOptions& common, const PoolOptions& options);

int command_template_build(const CommonOptions& common, const TemplateBuildOptions& options);
int command_template_list(const CommonOptions& common);
int command_template_remove(const CommonOptions& common, const std::string& name);

}  // namespace space::cli
