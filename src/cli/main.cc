// space: the command line. This file is the table of contents: the groups of commands.
#include "cli/completion.h"
#include "cli/output.h"
#include "cli/program.h"

namespace space::cli {

namespace {

int main_of(int argc, char** argv) {
  Program program;
  for (const auto add :
       {add_platform, add_sandboxes, add_moves, add_snapshots, add_protection, add_egress, add_processes,
        add_files, add_ports, add_observation, add_templates, add_doctor, add_completion}) {
    add(program);
  }
  if (argc >= 2 && argv[1] == complete_word) return command_complete(program, {argv + 2, argv + argc});
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
