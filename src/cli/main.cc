// space: the command line. This file is the table of contents: every command, its flags, its help.
#include <CLI/CLI.hpp>
#include <memory>

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

// NAME=VALUE, once or many times.
void add_pairs(CLI::App* command, const std::string& flag, std::map<std::string, std::string>& pairs,
               const std::string& help) {
  const auto parse = [&pairs, flag](const std::vector<std::string>& given) {
    for (const std::string& pair : given) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos || equals == 0)
        throw CLI::ValidationError(flag, "'" + pair + "' must look like NAME=VALUE");
      pairs[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  };
  command->add_option_function<std::vector<std::string>>(flag, parse, help)
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
}

void add_create_flags(CLI::App* command, CreateOptions& options, const std::string& letter_free_env) {
  command->add_option("-t,--template", options.template_name, "Template to start from")
      ->capture_default_str();
  command->add_option("--life", options.timeout_seconds, "Seconds the sandbox lives unless it is extended")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  add_pairs(command, "--metadata", options.metadata, "NAME=VALUE, kept with the sandbox; may be repeated");
  add_pairs(command, letter_free_env, options.env, "NAME=VALUE, seen by every process; may be repeated");
}

void add_exec_flags(CLI::App* command, ExecOptions& options) {
  command->add_option("-w,--cwd", options.cwd, "Folder to run in (default: the user's home)");
  command->add_option("-u,--user", options.user, "User to run as (default: the template's)");
  command
      ->add_option("--timeout", options.timeout_seconds,
                   "Kill the command after this many seconds (0: never)")
      ->capture_default_str();
  add_pairs(command, "-e,--env", options.env, "NAME=VALUE for this command; may be repeated");
  command->add_flag("-i,--terminal", options.terminal, "Give it a terminal (PTY) of this window's size");
}

// What every command shares: the flags that come before it, and the exit code it leaves.
struct Program {
  CLI::App app{
      "Run AI agents' code in virtual machines that appear in an instant.\n\n"
      "  sudo space up -d                                start the platform on this machine\n"
      "  sudo space run -- python3 -c 'print(6*7)'       create a sandbox, run, print, throw it away\n"
      "  sudo space create                               a sandbox that stays; prints its id\n"
      "  sudo space shell ID                             a login shell in it\n",
      "space"};
  CommonOptions common;
  int code = 0;

  // The command's options live as long as its callback, which CLI11 keeps.
  template <typename Options>
  void on_call(CLI::App* command, const std::shared_ptr<Options>& options,
               int (*run)(const CommonOptions&, const Options&)) {
    command->callback([this, options, run] { code = run(common, *options); });
  }
};

void add_common_flags(Program& program) {
  CLI::App& app = program.app;
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Help of every command");
  app.add_option("--api-url", program.common.api_url,
                 "API address (default: SPACE_API_URL, then ~/.config/space/config.json)");
  app.add_option("--api-key", program.common.api_key, "API key (default: SPACE_API_KEY, then the same file)");
  app.add_flag("--json", program.common.json, "One JSON document on standard output, for machines");
}

void add_up(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("up", "Start the platform here: all daemons, supervised, one log");
  const auto options = std::make_shared<UpOptions>();
  add_directories(command, options->directories);
  command->add_option("--listen", options->listen, "API address")->capture_default_str();
  command->add_option("--config", options->config, "Configuration file; flags win over it")
      ->capture_default_str();
  command->add_option("--pool-mib", options->pool_mib, "Size of the disk pool, when this start makes it")
      ->check(CLI::PositiveNumber);
  command->add_option("--memory-limit-mib", options->memory_limit_mib, "Memory promised to sandboxes at most")
      ->check(CLI::PositiveNumber);
  command->add_flag("-d,--detach", options->detach, "Return once everything is ready");
  command->callback([&program, command, options] {
    const auto given = [command](const char* flag) { return command->count(flag) > 0; };
    program.code = command_up(program.common, *options, given("--state"), given("--run"), given("--listen"));
  });
}

void add_down(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("down", "Stop the daemons; sandboxes keep running unless --all");
  const auto options = std::make_shared<DownOptions>();
  add_directories(command, options->directories);
  command->add_flag("--all", options->all, "Also kill every sandbox and unmount the pool");
  program.on_call(command, options, command_down);
}

void add_run(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "run", "Create a sandbox, run one command in it, kill it; exits with the command's code");
  const auto options = std::make_shared<RunOptions>();
  add_create_flags(command, options->create, "--sandbox-env");
  add_exec_flags(command, options->exec);
  command->add_flag("--keep", options->keep, "Leave the sandbox running and say its id");
  command->add_option("command", options->exec.argv, "-- CMD [ARG ...]")->required();
  command->footer("Example: space run -- python3 -c 'print(6*7)'");
  program.on_call(command, options, command_run);
}

void add_create(Program& program) {
  CLI::App* command = program.app.add_subcommand("create", "Create a sandbox and print its id");
  const auto options = std::make_shared<CreateOptions>();
  add_create_flags(command, *options, "-e,--env");
  program.on_call(command, options, command_create);
}

void add_exec(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("exec", "Run a command in a running sandbox; exits with the command's code");
  const auto options = std::make_shared<ExecOptions>();
  command->add_option("sandbox", options->sandbox, "Sandbox id")->required();
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
  command->add_option("sandbox", options->sandbox, "Sandbox id")->required();
  command->add_option("-u,--user", options->user, "User to be (default: the template's)");
  program.on_call(command, options, command_exec);
}

void add_ls(Program& program) {
  program.app.add_subcommand("ls", "List sandboxes")->callback([&program] {
    program.code = command_list(program.common);
  });
}

void add_info(Program& program) {
  CLI::App* command = program.app.add_subcommand("info", "Everything known of one sandbox");
  const auto sandbox = std::make_shared<std::string>();
  command->add_option("sandbox", *sandbox, "Sandbox id")->required();
  program.on_call(command, sandbox, command_info);
}

void add_kill(Program& program) {
  CLI::App* command = program.app.add_subcommand("kill", "Kill sandboxes; nothing of them is left");
  const auto sandboxes = std::make_shared<std::vector<std::string>>();
  command->add_option("sandbox", *sandboxes, "Sandbox ids")->required();
  program.on_call(command, sandboxes, command_kill);
}

void add_template_build(Program& program, CLI::App* templates) {
  CLI::App* command =
      templates->add_subcommand("build", "Build a template from its recipe and put it on the node (root)");
  const auto options = std::make_shared<TemplateBuildOptions>();
  command->add_option("name", options->name, "Template name")->capture_default_str();
  command->add_option("--recipe", options->recipe,
                      "Recipe folder (default: the one of that name that came with SPACE)");
  add_directories(command, options->directories);
  program.on_call(command, options, command_template_build);
}

void add_template(Program& program) {
  CLI::App* templates = program.app.add_subcommand("template", "Templates: what sandboxes start from");
  templates->require_subcommand(1);
  add_template_build(program, templates);
  templates->add_subcommand("ls", "List templates")->callback([&program] {
    program.code = command_template_list(program.common);
  });
  CLI::App* remove = templates->add_subcommand("rm", "Remove a template; sandboxes made from it go on");
  const auto name = std::make_shared<std::string>();
  remove->add_option("name", *name, "Template name")->required();
  program.on_call(remove, name, command_template_remove);
}

void add_doctor(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "doctor", "Examine this machine and installation; say what is wrong and what to do");
  const auto directories = std::make_shared<Directories>();
  add_directories(command, *directories);
  program.on_call(command, directories, command_doctor);
}

int main_of(int argc, char** argv) {
  Program program;
  add_common_flags(program);
  for (const auto add : {add_up, add_down, add_run, add_create, add_exec, add_shell, add_ls, add_info,
                         add_kill, add_template, add_doctor}) {
    add(program);
  }
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.app.exit(error) == 0 ? 0 : exit_usage;
  }
  return program.code;
}

}  // namespace

}  // namespace space::cli

int main(int argc, char** argv) {
  return space::cli::main_of(argc, argv);
}
