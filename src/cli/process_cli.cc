// space exec, shell: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_exec(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("exec", "Run a command in a running sandbox; exits with the command's code");
  const auto options = std::make_shared<ExecOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("command", options->argv, "-- CMD [ARG ...]")->required();
  add_exec_flags(command, *options);
  command->footer("Example: echo hello | space exec ID -- cat");
  program.on_call(command, options, command_exec);
}

void add_shell(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("shell", "A login shell in a running sandbox, on a terminal");
  const auto options = std::make_shared<ExecOptions>();
  options->terminal = true;
  options->argv = {"/bin/bash", "-i", "-l"};
  add_sandbox_id(command, options->sandbox);
  command->add_option("-u,--user", options->user, "User to be (default: the template's)");
  program.on_call(command, options, command_exec);
}

}  // namespace

void add_processes(Program& program) {
  add_exec(program);
  add_shell(program);
}

}  // namespace space::cli
