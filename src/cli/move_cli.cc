// space pause, resume, stop, start, pool: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

using Kind = MoveOptions::Kind;

std::shared_ptr<MoveOptions> add_move(Program& program, CLI::App* command, Kind kind) {
  const auto options = std::make_shared<MoveOptions>();
  options->kind = kind;
  command->add_option("sandbox", options->sandboxes, "Sandbox ids, or the beginnings of them")->required();
  program.on_call(command, options, command_move);
  return options;
}

void add_pause(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "pause", "Keep memory and disk of sandboxes, free the machine; programs go on after 'resume'");
  command->footer(
      "Its connections break. While it rests it has no timeout, and after some minutes costs disk space "
      "only.\n\n"
      "Examples:\n  space pause ID\n  space pause ID1 ID2 && space resume ID1");
  add_move(program, command, Kind::pause);
}

void add_resume(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("resume", "Bring paused or stopped sandboxes back, with the same id");
  const auto options = add_move(program, command, Kind::resume);
  add_life(command, options->life);
  command->add_flag("--boot", options->boot, "Drop the memory and boot from the disk");
  command->footer("Examples:\n  space resume ID\n  space resume ID --life never\n  space resume ID --boot");
}

void add_stop(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("stop", "Shut sandboxes down and keep their disks; paused ones too");
  command->footer(
      "Files stay, programs do not: 'space pause' keeps both.\n\n"
      "Examples:\n  space stop ID\n  space ls --json | jq -r '.[].sandboxID' | xargs space stop");
  add_move(program, command, Kind::stop);
}

void add_start(Program& program) {
  CLI::App* command = program.app.add_subcommand("start", "Boot stopped sandboxes; paused ones resume");
  const auto options = add_move(program, command, Kind::start);
  add_life(command, options->life);
  command->footer("Examples:\n  space start ID\n  space start ID --life 86400");
}

void add_pool(Program& program) {
  CLI::App* pool =
      program.app.add_subcommand("pool", "Virtual machines kept ready, so that 'create' is instant");
  pool->require_subcommand(1);
  pool->footer("Example: space pool ls");
  CLI::App* list = pool->add_subcommand("ls", "Of each template: how many, and how often one was there");
  list->footer("Example: space pool ls --json | jq '.pools[] | {template, hits, misses}'");
  list->callback([&program] { program.code = command_pool_list(program.common); });
  CLI::App* set = pool->add_subcommand("set", "How many to keep of a template until this node starts anew");
  const auto options = std::make_shared<PoolOptions>();
  set->add_option("template", options->template_name, "Template name")->required();
  const auto parse = [options](const std::string& text) {
    if (text == "default") return true;
    std::int64_t target = 0;
    if (!CLI::detail::lexical_cast(text, target) || target < 0) return false;
    options->target = target;
    return true;
  };
  set->add_option(
         "count", [parse](const CLI::results_t& words) { return parse(words.at(0)); },
         "A number, or 'default': what the node was started with")
      ->required()
      ->type_name("N|default");
  set->footer("Examples:\n  space pool set base 8\n  space pool set base default");
  program.on_call(set, options, command_pool_set);
}

}  // namespace

void add_moves(Program& program) {
  add_pause(program);
  add_resume(program);
  add_stop(program);
  add_start(program);
  add_pool(program);
}

}  // namespace space::cli
