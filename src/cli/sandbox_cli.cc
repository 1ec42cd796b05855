// space run, create, ls, info, kill: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_create_flags(CLI::App* command, CreateOptions& options, const std::string& letter_free_env) {
  command->add_option("-t,--template", options.template_name, "Template to start from")
      ->capture_default_str();
  add_life(command, options.life);
  command->add_option("--on-timeout", options.on_timeout, "What happens at the end of --life: kill or pause")
      ->capture_default_str()
      ->check(CLI::IsMember({"kill", "pause"}));
  command->add_flag("--auto-resume", options.auto_resume,
                    "A request to one of its ports wakes it when paused");
  command
      ->add_option("--idle-pause", options.idle_pause_s,
                   "Rest after this many seconds in which nothing happens; the next request wakes it")
      ->check(CLI::PositiveNumber);
  add_egress_flags(command, options.egress);
  add_pairs(command, "--metadata", options.metadata, "NAME=VALUE, kept with the sandbox; may be repeated");
  add_pairs(command, letter_free_env, options.env, "NAME=VALUE, seen by every process; may be repeated");
}

void add_run(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "run", "Create a sandbox, run one command in it, kill it; exits with the command's code");
  const auto options = std::make_shared<RunOptions>();
  add_create_flags(command, options->create, "--sandbox-env");
  add_exec_flags(command, options->exec);
  command->add_flag("--keep", options->keep, "Leave the sandbox running and say its id");
  command->add_flag("--tty", options->exec.terminal,
                    "Give it a terminal (PTY) of this window's size, with this one's keys");
  command->add_option("command", options->exec.argv, "-- CMD [ARG ...]")->required();
  command->footer(
      "Examples:\n"
      "  space run -- python3 -c 'print(6*7)'\n"
      "  space run --tty --keep -- bash\n"
      "  tar c src | space run -- tar t");
  program.on_call(command, options, command_run);
}

void add_create(Program& program) {
  CLI::App* command = program.app.add_subcommand("create", "Create a sandbox and print its id");
  const auto options = std::make_shared<CreateOptions>();
  add_create_flags(command, *options, "-e,--env");
  command->footer(
      "Examples:\n"
      "  id=$(space create --life 86400 --metadata owner=ana)\n"
      "  space create -t python -e API=http://example -e DEBUG=1\n"
      "  space create --allow pypi.org --allow github.com    reaches these two and nothing else\n"
      "  space create --egress deny_all                      reaches nothing\n"
      "  space create --life never --idle-pause 300       costs nothing while nobody uses it\n"
      "  space create --on-timeout pause --auto-resume    rests at its timeout, wakes for a request");
  program.on_call(command, options, command_create);
}

void add_ls(Program& program) {
  CLI::App* command = program.app.add_subcommand("ls", "List sandboxes");
  command->footer("Examples:\n  space ls\n  space ls --json | jq -r '.[].sandboxID'");
  command->callback([&program] { program.code = command_list(program.common); });
}

void add_info(Program& program) {
  CLI::App* command = program.app.add_subcommand("info", "Everything known of one sandbox");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(command, *sandbox);
  command->footer("Examples:\n  space info ID\n  space info ID --json | jq .endAt");
  program.on_call(command, sandbox, command_info);
}

void add_kill(Program& program) {
  CLI::App* command = program.app.add_subcommand("kill", "Kill sandboxes; nothing of them is left");
  const auto sandboxes = std::make_shared<std::vector<std::string>>();
  command->add_option("sandbox", *sandboxes, "Sandbox ids, or the beginnings of them")->required();
  command->footer(
      "Examples:\n  space kill ID1 ID2\n  space ls --json | jq -r '.[].sandboxID' | xargs space kill");
  program.on_call(command, sandboxes, command_kill);
}

}  // namespace

void add_sandboxes(Program& program) {
  add_run(program);
  add_create(program);
  add_ls(program);
  add_info(program);
  add_kill(program);
}

}  // namespace space::cli
