// space: the command line. This file is the table of contents: every command, its flags, its help.
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/output.h"
#include "cli/platform_commands.h"

namespace space::cli {

namespace {

void add_directories(CLI::App* command, Directories& directories) {
  command->add_option("--state", directories.state, "Where everything durable lives")->capture_default_str();
  command->add_option("--run", directories.run, "Where sockets live; empty after a reboot")
      ->capture_default_str();
}

void add_create_flags(CLI::App* command, CreateOptions& options, const std::string& letter_free_env) {
  command->add_option("-t,--template", options.template_name, "Template to start from")
      ->capture_default_str();
  command->add_option("--life", options.timeout_seconds, "Seconds the sandbox lives unless it is extended")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  command->add_option("--metadata", options.metadata, "NAME VALUE, kept with the sandbox; may be repeated");
  command->add_option(letter_free_env, options.env, "NAME VALUE, seen by every process; may be repeated");
}

void add_exec_flags(CLI::App* command, ExecOptions& options) {
  command->add_option("-w,--cwd", options.cwd, "Folder to run in (default: the user's home)");
  command->add_option("-u,--user", options.user, "User to run as (default: the template's)");
  command
      ->add_option("--timeout", options.timeout_seconds,
                   "Kill the command after this many seconds (0: never)")
      ->capture_default_str();
  command->add_option("-e,--env", options.env, "NAME VALUE for this command; may be repeated");
  command->add_flag("-i,--terminal", options.terminal, "Give it a terminal (PTY) of this window's size");
}

int main_of(int argc, char** argv) {
  CLI::App app{
      "Run AI agents' code in virtual machines that appear in an instant.\n\n"
      "  sudo space up -d                                start the platform on this machine\n"
      "  sudo space run -- python3 -c 'print(6*7)'       create a sandbox, run, print, throw it away\n"
      "  sudo space create                               a sandbox that stays; prints its id\n"
      "  sudo space shell ID                             a login shell in it\n",
      "space"};
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Help of every command");
  CommonOptions common;
  app.add_option("--api-url", common.api_url,
                 "API address (default: SPACE_API_URL, then ~/.config/space/config.json)");
  app.add_option("--api-key", common.api_key, "API key (default: SPACE_API_KEY, then the same file)");
  app.add_flag("--json", common.json, "One JSON document on standard output, for machines");

  int code = 0;
  const auto command = [&](CLI::App* parent, const std::string& name, const std::string& help) {
    return parent->add_subcommand(name, help);
  };

  UpOptions up;
  CLI::App* up_command = command(&app, "up", "Start the platform here: all daemons, supervised, one log");
  add_directories(up_command, up.directories);
  up_command->add_option("--listen", up.listen, "API address")->capture_default_str();
  up_command->add_option("--config", up.config, "Configuration file; flags win over it")
      ->capture_default_str();
  up_command->add_flag("-d,--detach", up.detach, "Return once everything is ready");
  up_command->callback([&] {
    const auto given = [&](const char* flag) { return up_command->count(flag) > 0; };
    code = command_up(common, up, given("--state"), given("--run"), given("--listen"));
  });

  DownOptions down;
  CLI::App* down_command = command(&app, "down", "Stop the daemons; sandboxes keep running unless --all");
  add_directories(down_command, down.directories);
  down_command->add_flag("--all", down.all, "Also kill every sandbox and unmount the pool");
  down_command->callback([&] { code = command_down(common, down); });

  RunOptions run;
  CLI::App* run_command =
      command(&app, "run", "Create a sandbox, run one command in it, kill it; exits with the command's code");
  add_create_flags(run_command, run.create, "--sandbox-env");
  add_exec_flags(run_command, run.exec);
  run_command->add_flag("--keep", run.keep, "Leave the sandbox running and say its id");
  run_command->add_option("command", run.exec.argv, "-- CMD [ARG ...]")->required();
  run_command->footer("Example: space run -- python3 -c 'print(6*7)'");
  run_command->callback([&] { code = command_run(common, run); });

  CreateOptions create;
  CLI::App* create_command = command(&app, "create", "Create a sandbox and print its id");
  add_create_flags(create_command, create, "-e,--env");
  create_command->callback([&] { code = command_create(common, create); });

  ExecOptions exec;
  CLI::App* exec_command =
      command(&app, "exec", "Run a command in a running sandbox; exits with the command's code");
  exec_command->add_option("sandbox", exec.sandbox, "Sandbox id")->required();
  exec_command->add_option("command", exec.argv, "-- CMD [ARG ...]")->required();
  add_exec_flags(exec_command, exec);
  exec_command->footer("Example: echo hello | space exec ID -- cat");
  exec_command->callback([&] { code = command_exec(common, exec); });

  ExecOptions shell;
  CLI::App* shell_command = command(&app, "shell", "A login shell in a running sandbox, on a terminal");
  shell_command->add_option("sandbox", shell.sandbox, "Sandbox id")->required();
  shell_command->add_option("-u,--user", shell.user, "User to be (default: the template's)");
  shell_command->callback([&] {
    shell.terminal = true;
    shell.argv = {"/bin/bash", "-i", "-l"};
    code = command_exec(common, shell);
  });

  command(&app, "ls", "List sandboxes")->callback([&] { code = command_list(common); });

  std::string info;
  CLI::App* info_command = command(&app, "info", "Everything known of one sandbox");
  info_command->add_option("sandbox", info, "Sandbox id")->required();
  info_command->callback([&] { code = command_info(common, info); });

  std::vector<std::string> kill;
  CLI::App* kill_command = command(&app, "kill", "Kill sandboxes; nothing of them is left");
  kill_command->add_option("sandbox", kill, "Sandbox ids")->required();
  kill_command->callback([&] { code = command_kill(common, kill); });

  CLI::App* templates = command(&app, "template", "Templates: what sandboxes start from");
  templates->require_subcommand(1);
  TemplateBuildOptions build;
  CLI::App* build_command =
      command(templates, "build", "Build a template from its recipe and put it on the node (root)");
  build_command->add_option("name", build.name, "Template name")->capture_default_str();
  build_command->add_option("--recipe", build.recipe,
                            "Recipe folder (default: the one of that name that came with SPACE)");
  add_directories(build_command, build.directories);
  build_command->callback([&] { code = command_template_build(common, build); });
  command(templates, "ls", "List templates")->callback([&] { code = command_template_list(common); });
  std::string remove;
  CLI::App* remove_command = command(templates, "rm", "Remove a template; sandboxes made from it go on");
  remove_command->add_option("name", remove, "Template name")->required();
  remove_command->callback([&] { code = command_template_remove(common, remove); });

  Directories doctor;
  CLI::App* doctor_command =
      command(&app, "doctor", "Examine this machine and installation; say what is wrong and what to do");
  add_directories(doctor_command, doctor);
  doctor_command->callback([&] { code = command_doctor(common, doctor); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  }
  return code;
}

}  // namespace

}  // namespace space::cli

int main(int argc, char** argv) {
  return space::cli::main_of(argc, argv);
}
