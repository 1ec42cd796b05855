// space logs, top, isolation: their flags and help.
#include "cli/isolation_command.h"
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

void add_isolation(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "isolation", "What holds a sandbox, layer by layer, as its node's kernel says");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(command, *sandbox);
  command->footer(
      "ok: the layer stands. n/a: the node's kernel has none. OFF: it should stand and does not; then the\n"
      "exit code is 1.\n\n"
      "Examples:\n"
      "  space isolation ID\n"
      "  space isolation ID --json | jq -r '.layers[] | select(.state != \"active\") | .name'");
  program.on_call(command, sandbox, command_isolation);
}

}  // namespace

void add_observation(Program& program) {
  add_logs(program);
  add_top(program);
  add_isolation(program);
}

}  // namespace space::cli
