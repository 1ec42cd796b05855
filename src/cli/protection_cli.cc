// space schedule, recovery: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_schedule(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "schedule", "Snapshots that a sandbox's node takes by itself; shows or sets when, and which are kept");
  const auto options = std::make_shared<ScheduleOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("word", options->word, "default, or off")->check(CLI::IsMember({"default", "off"}));
  command->add_option("--disk-every", options->disk_every, "A disk snapshot so often: 10m, 1h, 1d");
  command->add_option("--disk-keep", options->disk_keep,
                      "Which of them stay, as COUNTxDISTANCE: 6x10m,24x1h,7x1d (default: the last six)");
  command->add_option("--full-every", options->full_every, "A checkpoint, memory and disk, so often");
  command->add_option("--full-keep", options->full_keep, "Which of those stay");
  command->add_option("--quota", options->quota,
                      "What they may take of the pool: 10GiB. The oldest go first, also those asked for");
  command->add_option("--file", options->file, "A schedule as JSON, as --json shows it; '-': standard input");
  command->footer(
      "default: disk every 10 min, kept 6 x 10 min, 24 x 1 h, 7 x 1 day; full every 1 h, kept 3 x 1 h. What "
      "is\n"
      "set replaces all of what was. A sandbox in which nothing happened takes none. Pinned, named and "
      "needed\n"
      "ones always stay.\n\n"
      "Examples:\n"
      "  space schedule ID                            what it is now\n"
      "  space schedule ID default\n"
      "  space schedule ID --disk-every 5m --disk-keep 12x5m,24x1h --quota 10GiB\n"
      "  space schedule ID --json > s.json; space schedule OTHER --file s.json");
  program.on_call(command, options, command_schedule);
}

void add_recovery(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "recovery", "What happens when a sandbox's virtual machine ends unasked; and what happened");
  const auto options = std::make_shared<RecoveryOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("policy", options->policy, "disk, checkpoint or none")
      ->check(CLI::IsMember({"disk", "checkpoint", "none"}));
  command->add_flag("--now", options->now, "Try again with one that failed and whose disk is kept");
  command->footer(
      "disk: its disk boots as it is. checkpoint: its newest checkpoint goes on, and the disk as it was is "
      "kept\n"
      "as a snapshot. none: it is gone. More than three in ten minutes: it fails, and its disk is kept.\n\n"
      "Examples:\n  space recovery ID\n  space recovery ID checkpoint\n  space recovery ID --now");
  program.on_call(command, options, command_recovery);
}

}  // namespace

void add_protection(Program& program) {
  add_schedule(program);
  add_recovery(program);
}

}  // namespace space::cli
