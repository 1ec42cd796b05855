// space snapshot, fork, rollback, history, diff: their flags and help.
#include "cli/commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

using Change = SnapshotChange::Kind;

constexpr const char* numbers_help = "Number of the snapshot: 'space snapshot ls ID'";

std::shared_ptr<SnapshotChange> add_change(Program& program, CLI::App* command, Change kind) {
  const auto options = std::make_shared<SnapshotChange>();
  options->kind = kind;
  add_sandbox_id(command, options->sandbox);
  CLI::Option* number =
      command->add_option("number", options->numbers, numbers_help)->required()->check(CLI::PositiveNumber);
  if (kind == Change::rename) number->expected(1);
  program.on_call(command, options, command_snapshot_change);
  return options;
}

void add_changes(Program& program, CLI::App* snapshot) {
  CLI::App* remove = snapshot->add_subcommand("rm", "Remove snapshots; those that continue them stay whole");
  remove->footer(
      "One that something still needs is refused, with what to do.\n\nExample: space snapshot rm ID 3 4");
  add_change(program, remove, Change::remove);
  CLI::App* pin = snapshot->add_subcommand("pin", "Keep snapshots whatever the schedule and the quota say");
  pin->footer("Example: space snapshot pin ID 3");
  add_change(program, pin, Change::pin);
  CLI::App* unpin = snapshot->add_subcommand("unpin", "The opposite of pin");
  unpin->footer("Example: space snapshot unpin ID 3");
  add_change(program, unpin, Change::unpin);
  CLI::App* name = snapshot->add_subcommand("name", "Give a snapshot a name, which keeps it as pin does");
  const auto options = add_change(program, name, Change::rename);
  name->add_option("name", options->name, "The name; none takes it away");
  name->footer("Examples:\n  space snapshot name ID 3 before-upgrade\n  space snapshot name ID 3");
}

void add_snapshot(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "snapshot", "Keep memory and disk of a sandbox as of now; it runs on. Also: ls, rm, pin, unpin, name");
  const auto options = std::make_shared<SnapshotOptions>();
  command->add_option("sandbox", options->sandbox, "Sandbox id, or the beginning of it");
  command->add_flag("--disk", options->disk,
                    "The disk only: nothing stands still, and going back to it reboots");
  command->add_option("--name", options->name, "A name for it; a named one is never removed by itself");
  command->add_flag("--pin", options->pinned, "Never remove it by itself");
  command->footer(
      "Examples:\n"
      "  space snapshot ID --name before-upgrade\n"
      "  space snapshot ID --disk\n"
      "  space snapshot ls ID\n"
      "  space rollback ID 3            and back: space rollback ID --undo");
  command->callback([&program, command, options] {
    if (!command->get_subcommands().empty()) return;  // the subcommand's own has run
    if (options->sandbox.empty()) throw CLI::RequiredError("sandbox");
    program.code = command_snapshot(program.common, *options);
  });
  CLI::App* list =
      command->add_subcommand("ls", "What is kept of a sandbox, and what each of it costs alone");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(list, *sandbox);
  list->footer(
      "WRITTEN: at its making. ALONE: what removing it would free. Marks: used (a sandbox runs from it),\n"
      "branch (a rollback left it behind), unquiesced (the guest did not answer).\n\n"
      "Examples:\n  space snapshot ls ID\n  space snapshot ls ID --json | jq '.snapshots[-1].number'");
  program.on_call(list, sandbox, command_snapshot_list);
  add_changes(program, command);
}

void add_fork(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "fork", "More sandboxes that go on where this one is, programs and all; prints their ids");
  const auto options = std::make_shared<ForkOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("-n,--count", options->count, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command->add_option("--snapshot", options->snapshot, "Go on from this snapshot of it instead of from now")
      ->check(CLI::PositiveNumber);
  const auto check = [](const std::string& text) {
    const bool digits =
        !text.empty() && text.size() < 12 && text.find_first_not_of("0123456789") == text.npos;
    if (text == "never" || (digits && std::stoll(text) > 0)) return std::string();
    return "'" + text + "' must be a number of seconds, or never";
  };
  command
      ->add_option("--life,--timeout", options->life, "Seconds each lives unless it is extended, or 'never'")
      ->check(CLI::Validator(check, "SECONDS|never"));
  command->footer(
      "Each is a sandbox of its own: new id, host name and keys; disk, memory and metadata are copies. The\n"
      "exit code is 1 when one of them could not be made.\n\n"
      "Examples:\n"
      "  space fork ID\n"
      "  for id in $(space fork ID --count 10); do space exec $id -- ./try $id & done; wait\n"
      "  space fork ID --snapshot 3");
  program.on_call(command, options, command_fork);
}

void add_rollback(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("rollback", "Put a sandbox back to one of its snapshots; it keeps its id");
  const auto options = std::make_shared<RollbackOptions>();
  add_sandbox_id(command, options->sandbox);
  CLI::Option* number =
      command->add_option("number", options->number, numbers_help)->check(CLI::PositiveNumber);
  command->add_flag("--undo", options->undo, "To the state before the last rollback")->excludes(number);
  command->footer(
      "A full snapshot continues where it was, a disk snapshot boots. The state of now is kept as a "
      "snapshot\n"
      "first, and an undo can be undone. Connections break.\n\n"
      "Examples:\n  space rollback ID 3\n  space rollback ID --undo");
  program.on_call(command, options, command_rollback);
}

void add_history(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "history", "A tree of a sandbox's snapshots, forks, rollbacks and recoveries");
  const auto sandbox = std::make_shared<std::string>();
  add_sandbox_id(command, *sandbox);
  command->footer("Examples:\n  space history ID\n  space history ID --json | jq .events");
  program.on_call(command, sandbox, command_history);
}

void add_diff(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("diff", "Which files differ between the disks of two snapshots");
  const auto options = std::make_shared<DiffOptions>();
  add_sandbox_id(command, options->sandbox);
  command->add_option("from", options->from, numbers_help)->required()->check(CLI::PositiveNumber);
  command->add_option("to", options->to, "Another one")->required()->check(CLI::PositiveNumber);
  command->footer(
      "A: added. D: removed. M: changed. The disks are read in a virtual machine made for that, never on "
      "this\n"
      "machine; it takes a moment.\n\n"
      "Examples:\n  space diff ID 3 5\n  space diff ID 3 5 --json | jq -r '.changes[].path'");
  program.on_call(command, options, command_diff);
}

}  // namespace

void add_snapshots(Program& program) {
  add_snapshot(program);
  add_fork(program);
  add_rollback(program);
  add_history(program);
  add_diff(program);
}

}  // namespace space::cli
