// space exec, shell, attach, ps, kill-process: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

constexpr const char* detach_keys =
    "Ctrl-P Ctrl-Q leaves the program running; Ctrl-P reaches it with the key typed next.";

void add_process(CLI::App* command, std::string& process) {
  command->add_option("process", process, "Its pid or tag, as 'space ps' lists them")->required();
}

void add_exec(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("exec", "Run a command in a running sandbox; exits with the command's code");
  const auto options = std::make_shared<ExecOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("command", options->argv, "-- CMD [ARG ...]")->required();
  add_exec_flags(command, *options);
  auto* interactive =
      command->add_flag("-i,--interactive", options->interactive,
                        "Give it standard input even if that is a terminal (what is piped in always goes)");
  command->add_flag("-t,--tty", options->terminal,
                    "Give it a terminal (PTY) of this window's size, with this one's keys");
  command
      ->add_flag("--no-stdin", options->no_stdin, "Leave standard input alone, e.g. in a 'while read' loop")
      ->excludes(interactive);
  command->add_flag("-d,--detach", options->detach,
                    "Print its pid and leave; output with nobody attached is dropped");
  command->add_option("--tag", options->tag, "A name for it, for 'attach' and 'kill-process'");
  command->footer(std::string("Examples:\n"
                              "  echo hello | space exec ID -- tr a-z A-Z\n"
                              "  space exec -it ID -- python3\n"
                              "  space exec -d --tag web ID -- python3 -m http.server 8000\n") +
                  detach_keys);
  program.on_call(command, options, command_exec);
}

void add_shell(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "shell", "A login shell in a running sandbox, on a terminal; outlives lost connections");
  const auto options = std::make_shared<ShellOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("-u,--user", options->user, "User to be (default: the template's)");
  command->add_option("--attach", options->attach, "Join a program that runs already: its pid or tag");
  command->footer(std::string("Examples:\n"
                              "  space shell ID\n"
                              "  space shell ID --attach shell-x7Tq0bPz      back to one that was left\n") +
                  detach_keys);
  program.on_call(command, options, command_shell);
}

void add_attach(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "attach", "Join a running program: its output from now on, its terminal if it has one");
  const auto options = std::make_shared<ProcessOptions>();
  add_sandbox_id(command, options->sandbox);
  add_process(command, options->process);
  command->add_flag("-i,--interactive", options->interactive,
                    "Give it standard input (one on a terminal always gets it)");
  command->footer(
      std::string("Examples:\n"
                  "  space attach ID web\n"
                  "  space attach ID 1234\n"
                  "Exits with the program's code; Ctrl-C leaves a program without a terminal.\n") +
      detach_keys);
  program.on_call(command, options, command_attach);
}

void add_ps(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "ps", "List the programs that were started in a sandbox and run (not what they started)");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(command, *sandbox);
  command->footer("Examples:\n  space ps ID\n  space ps ID --json");
  program.on_call(command, sandbox, command_ps);
}

void add_kill_process(Program& program) {
  CLI::App* command = program.app.add_subcommand("kill-process", "Send a signal to a program in a sandbox");
  const auto options = std::make_shared<ProcessOptions>();
  add_sandbox_id(command, options->sandbox);
  add_process(command, options->process);
  command->add_option("-s,--signal", options->signal, "TERM or KILL")
      ->capture_default_str()
      ->check(CLI::IsMember({"TERM", "KILL"}));
  command->footer("Examples:\n  space kill-process ID web\n  space kill-process ID 1234 -s KILL");
  program.on_call(command, options, command_kill_process);
}

}  // namespace

void add_processes(Program& program) {
  add_exec(program);
  add_shell(program);
  add_attach(program);
  add_ps(program);
  add_kill_process(program);
}

}  // namespace space::cli
