// space doctor: its flags and help.
#include "cli/doctor.h"
#include "cli/program.h"

namespace space::cli {

void add_doctor(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "doctor", "Examine this machine and installation; say what is wrong and what to do");
  const auto directories = std::make_shared<Directories>();
  add_directories(command, *directories);
  program.on_call(command, directories, command_doctor);
}

}  // namespace space::cli
