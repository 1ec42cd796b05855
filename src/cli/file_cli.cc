// space cp, watch: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

constexpr const char* copy_help =
    "Paths in a sandbox are ID:/absolute or ID:relative-to-home; ./a:b is one of this machine.\n"
    "Folders are copied with all that is in them. DST ending with / is a folder, and is made; SRC ending\n"
    "with /. means what is in the folder. A file is replaced when its copy is whole. Links in a sandbox\n"
    "that lead out of the folder copied are left out.\n\n"
    "Examples:\n"
    "  space cp report.pdf ID:                       into the home folder\n"
    "  space cp -q ID:/var/log/. logs/               all that is in it\n"
    "  space cp src tests ID:/srv/                   folders\n"
    "  space cp ID1:/data/big.bin ID2:/data/         from sandbox to sandbox\n"
    "  space cp --resume model.bin ID:/models/       goes on where an interrupted copy stopped";

void add_copy(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("cp", "Copy files and folders to, from and between sandboxes");
  const auto options = std::make_shared<CopyCommand>();
  // One list: CLI11 would give the first positional everything.
  const auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("path", *paths, "SRC ... DST")->required()->expected(2, -1)->type_name("PATH");
  command->add_flag_callback("-r,--recursive", [] {}, "For habit's sake: folders are always copied whole");
  command->add_flag("--resume", options->resume,
                    "Go on with interrupted files, skip those of the same size that are no older");
  command->add_flag("-q,--quiet", options->quiet, "No progress, no summary");
  command->add_option("-u,--user", options->user, "Whose files they are in the sandbox");
  command->footer(copy_help);
  command->callback([&program, options, paths] {
    options->destination = paths->back();
    options->sources.assign(paths->begin(), paths->end() - 1);
    program.code = command_copy(program.common, *options);
  });
}

void add_watch(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("watch", "Print what happens to the files of a folder, until Ctrl-C");
  const auto options = std::make_shared<WatchOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("path", options->path, "Folder in the sandbox")->required();
  command->add_flag("-r,--recursive", options->recursive, "And of all folders in it, new ones too");
  command->add_option("-u,--user", options->user, "Whose home a relative path starts from");
  command->footer(
      "One line an event: create, write, remove, rename or chmod, and the path below the folder.\n\n"
      "Examples:\n"
      "  space watch ID /home/user/project -r\n"
      "  space watch ID . --json | jq -r .name");
  program.on_call(command, options, command_watch);
}

}  // namespace

void add_files(Program& program) {
  add_copy(program);
  add_watch(program);
}

}  // namespace space::cli
