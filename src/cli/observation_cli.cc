// space logs, top: their flags and help.
#include "cli/logs_command.h"
#include "cli/program.h"
#include "cli/top_command.h"

namespace space::cli {

namespace {

void add_logs(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "logs", "What happened to a sandbox and what its console says; also after its end");
  const auto options = std::make_shared<LogsOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_flag("-f,--follow", options->follow, "Go on with new lines until it is deleted or Ctrl-C");
  command->add_option("--since", options->since, "Lines from then on: 90s, 10m, 2h, 3d ago, or a time");
  command->add_option("--level", options->level, "Lines of this level and above")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  command->footer(
      "Lines of the guest's console have a bar in front.\n\n"
      "Examples:\n"
      "  space logs ID\n"
      "  space logs -f --since 10m ID\n"
      "  space logs --level warn ID");
  program.on_call(command, options, command_logs);
}

void add_top(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("top", "What the running sandboxes use, and what keeps them in use");
  const auto options = std::make_shared<TopOptions>();
  command->add_flag("--once", options->once, "Print one table and end; always so where there is no terminal");
  command->add_option("--sort", options->sort, "cpu or mem, the most first")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "mem"}));
  command->footer(
      "CPU% is of one core, over the last seconds. q or Ctrl-C ends.\n\n"
      "Examples:\n"
      "  space top\n"
      "  space top --once --sort mem");
  program.on_call(command, options, command_top);
}

}  // namespace

void add_observation(Program& program) {
  add_logs(program);
  add_top(program);
}

}  // namespace space::cli
