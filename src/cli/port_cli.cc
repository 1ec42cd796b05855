// space port-forward, url: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_forward(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "port-forward", "Ports of a sandbox's loopback on this machine's, until Ctrl-C");
  const auto options = std::make_shared<ForwardOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("port", options->ports, "[LOCAL:]REMOTE; LOCAL 0 is any free port")->required();
  command->footer(
      "Any TCP protocol; the server in the sandbox may listen on 127.0.0.1 only.\n\n"
      "Examples:\n"
      "  space port-forward ID 8000\n"
      "  space port-forward ID 15432:5432 0:6379");
  program.on_call(command, options, command_forward);
}

void add_url(Program& program) {
  CLI::App* command = program.app.add_subcommand("url", "How to reach an HTTP server in a sandbox");
  const auto options = std::make_shared<UrlOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("port", options->port, "Its port")->required()->check(CLI::Range(1, 65535));
  command->footer(
      "Prints the URL, then a curl line that works without name resolution.\n\n"
      "Examples:\n"
      "  space url ID 8000\n"
      "  curl \"$(space url ID 8000 | head -1)\"");
  program.on_call(command, options, command_url);
}

}  // namespace

void add_ports(Program& program) {
  add_forward(program);
  add_url(program);
}

}  // namespace space::cli
