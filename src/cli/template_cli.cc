// space template build, ls, rm: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_build(Program& program, CLI::App* templates) {
  CLI::App* command = templates->add_subcommand(
      "build", "Build a template from its recipe, put it on the node and take its checkpoint (root)");
  const auto options = std::make_shared<TemplateBuildOptions>();
  command->add_option("name", options->name, "Template name")->capture_default_str();
  command->add_option("--recipe", options->recipe,
                      "Recipe folder (default: the one of that name that came with SPACE)");
  add_directories(command, options->directories);
  add_config(command, options->config);
  command->footer(
      "Examples:\n"
      "  sudo space template build base\n"
      "  sudo space template build mine --recipe ./mine");
  program.on_call_here(command, options, command_template_build);
}

void add_remove(Program& program, CLI::App* templates) {
  CLI::App* command = templates->add_subcommand("rm", "Remove a template; sandboxes made from it go on");
  const auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "Template name")->required();
  command->footer("Example: space template rm mine");
  program.on_call(command, name, command_template_remove);
}

}  // namespace

void add_templates(Program& program) {
  CLI::App* templates = program.app.add_subcommand("template", "Templates: what sandboxes start from");
  templates->require_subcommand(1);
  templates->footer("Example: space template ls");
  add_build(program, templates);
  CLI::App* list = templates->add_subcommand("ls", "List templates");
  list->footer("Example: space template ls --json");
  list->callback([&program] { program.code = command_template_list(program.common); });
  add_remove(program, templates);
}

}  // namespace space::cli
