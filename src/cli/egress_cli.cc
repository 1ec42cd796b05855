// space egress: its flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

constexpr const char* rules_help =
    "NAME, *.NAME, +.NAME (with the apex) or CIDR; ports behind a ':', as in example.com:22,8000-8999";

void add_mode(CLI::App* command, const char* name, EgressFlags& flags, const char* help) {
  command->add_option(name, flags.mode, help)
      ->check(CLI::IsMember({"allow_all", "restricted", "deny_all"}))
      ->type_name("MODE");
}

void add_lists(CLI::App* command, EgressFlags& flags) {
  command->add_option("--allow", flags.allow, rules_help)->allow_extra_args(false)->type_name("RULE");
  command->add_option("--deny", flags.deny, "The same, for what is refused; it goes before --allow")
      ->allow_extra_args(false)
      ->type_name("RULE");
}

void add_force(CLI::App* command, bool& force) {
  command->add_flag("--force", force, "Take wildcards that are too broad, like *.com");
}

void add_show(Program& program, CLI::App* egress) {
  CLI::App* command = egress->add_subcommand("show", "The policy, its rules, and what came of it");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(command, *sandbox);
  command->footer("Examples:\n  space egress show ID\n  space egress show ID --json > policy.json");
  program.on_call(command, sandbox, command_egress_show);
}

void add_edit(Program& program, CLI::App* egress, const char* list, const char* what, const char* footer) {
  CLI::App* command = egress->add_subcommand(list, what);
  const auto options = std::make_shared<EgressEditOptions>();
  options->list = list;
  add_sandbox_id(command, options->sandbox);
  command->add_option("rule", options->rules, rules_help)->required()->type_name("RULE");
  add_force(command, options->force);
  command->footer(footer);
  program.on_call(command, options, command_egress_edit);
}

void add_set(Program& program, CLI::App* egress) {
  CLI::App* command = egress->add_subcommand("set", "Replace the whole policy");
  const auto options = std::make_shared<EgressSetOptions>();
  add_sandbox_id(command, options->sandbox);
  add_mode(command, "mode", options->flags, "allow_all, restricted or deny_all");
  add_lists(command, options->flags);
  command->add_option("--file", options->file,
                      "A policy as JSON, as 'show --json' has it; '-': standard input");
  add_force(command, options->force);
  command->footer(
      "allow_all: everything but what --deny names. restricted: only what --allow names. deny_all: nothing,\n"
      "and no name is answered. Private addresses, metadata services and this machine stay closed in "
      "each.\n\n"
      "Examples:\n"
      "  space egress set ID restricted --allow pypi.org --allow '*.pythonhosted.org'\n"
      "  space egress set ID allow_all --deny 198.51.100.0/24\n"
      "  space egress set ID deny_all\n"
      "  space egress set ID --file policy.json");
  program.on_call(command, options, command_egress_set);
}

void add_test(Program& program, CLI::App* egress) {
  CLI::App* command = egress->add_subcommand(
      "test", "What a connection would meet now, and which rule decides; nothing is dialled");
  const auto options = std::make_shared<EgressTestOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("url", options->url, "URL, or HOST:PORT")->required();
  command->footer(
      "The exit code is 0 when it is allowed and 1 when it is refused.\n\n"
      "Examples:\n"
      "  space egress test ID https://pypi.org/simple/\n"
      "  space egress test ID github.com:22");
  program.on_call(command, options, command_egress_test);
}

void add_log(Program& program, CLI::App* egress) {
  CLI::App* command =
      egress->add_subcommand("log", "What it tried to reach, and what was decided by which rule");
  const auto options = std::make_shared<EgressLogOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_flag("-f,--follow", options->follow, "Go on with new decisions until it is deleted or Ctrl-C");
  command->add_flag("--denied", options->denied, "Refusals only");
  command->footer(
      "One line a decision, in UTC. A connection has a line when it begins and one when it ends. With "
      "--json\n"
      "and --follow each line is a JSON object.\n\n"
      "Examples:\n"
      "  space egress log -f ID\n"
      "  space egress log --denied ID\n"
      "  space egress log -f ID --json | jq -r 'select(.allowed | not) | .host'");
  program.on_call(command, options, command_egress_log);
}

}  // namespace

void add_egress_flags(CLI::App* command, EgressFlags& flags) {
  add_mode(command, "--egress", flags,
           "What it may connect to: allow_all, restricted (what --allow names) or deny_all (default: the "
           "operator's)");
  add_lists(command, flags);
}

void add_egress(Program& program) {
  CLI::App* egress = program.app.add_subcommand(
      "egress", "Where a sandbox may connect to: show, allow, deny, remove, set, test, log");
  egress->require_subcommand(1);
  egress->footer(
      "What is said is in force when the command returns; connections that it forbids are closed.\n\n"
      "Examples:\n"
      "  space egress set ID restricted --allow pypi.org\n"
      "  space egress test ID https://example.com/\n"
      "  space egress log -f ID");
  add_show(program, egress);
  add_edit(program, egress, "allow", "Add rules that allow",
           "In mode deny_all it makes the mode restricted.\n\n"
           "Examples:\n"
           "  space egress allow ID pypi.org '*.pythonhosted.org'\n"
           "  space egress allow ID github.com:22 192.0.2.0/24:5432");
  add_edit(program, egress, "deny", "Add rules that deny; they go before those that allow",
           "Example: space egress deny ID ads.example.com 198.51.100.0/24");
  add_edit(program, egress, "remove", "Take rules away, as 'show' has them",
           "Example: space egress remove ID pypi.org github.com:22");
  add_set(program, egress);
  add_test(program, egress);
  add_log(program, egress);
}

}  // namespace space::cli
