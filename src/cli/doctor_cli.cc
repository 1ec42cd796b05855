// space doctor: its flags and help.
#include "cli/doctor.h"
#include "cli/program.h"

namespace space::cli {

void add_doctor(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "doctor", "Examine this machine and installation; say what is wrong and what to do");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--state", options->state, "Where everything durable lives (default: as 'space up')")
      ->envname("SPACE_STATE");
  command->add_option("--run", options->run, "Where sockets live (default: as 'space up')")
      ->envname("SPACE_RUN");
  command->add_option("--config", options->config, "Configuration file")->capture_default_str();
  command->footer(
      "Examples:\n"
      "  sudo space doctor                 every check, good ones too; exit code 1 when one is BAD\n"
      "  sudo space doctor --json | jq '.[] | select(.verdict != \"good\")'");
  program.on_call(command, options, command_doctor);
}

}  // namespace space::cli
