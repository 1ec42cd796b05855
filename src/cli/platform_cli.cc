// space up, down: their flags and help.
#include "cli/platform_commands.h"
#include "cli/program.h"

namespace space::cli {

namespace {

void add_up(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("up", "Start the platform here: all daemons, supervised, one log");
  const auto options = std::make_shared<UpOptions>();
  add_directories(command, options->directories);
  command->add_option("--listen", options->listen, "API address")
      ->envname("SPACE_LISTEN")
      ->capture_default_str();
  add_config(command, options->config);
  command->add_option("--pool-mib", options->pool_mib, "Size of the disk pool, when this start makes it")
      ->check(CLI::PositiveNumber);
  command->add_option("--memory-limit-mib", options->memory_limit_mib, "Memory promised to sandboxes at most")
      ->check(CLI::PositiveNumber);
  command->add_flag("--allow-tcg-multitenant", options->allow_tcg_multitenant,
                    "Several teams' sandboxes here also without hardware isolation (KVM)");
  const auto add_limit = [command](const char* flag, std::optional<std::int64_t>& value, const char* what) {
    command->add_option(flag, value, what)->check(CLI::NonNegativeNumber);
  };
  add_limit("--disk-mib-per-s", options->disk_mib_per_s, "What each sandbox's disk may do; 400, 0: no limit");
  add_limit("--disk-iops", options->disk_iops,
            "Operations per second of each sandbox's disk; 20000, 0: no limit");
  add_limit("--network-mbit-per-s", options->network_mbit_per_s,
            "Each sandbox's network, each way; 1000, 0: no limit");
  command->add_option("--allow-missing-layer", options->allow_missing_layers,
                      "Run VMs without this layer of the jail where the kernel has none, e.g. landlock");
  add_limit("--warm-pool", options->warm_pool, "VMs kept ready for each template's default shape; 2");
  add_limit("--warm-pool-max", options->warm_pool_max, "VMs kept ready in all");
  add_limit("--hot-keep", options->hot_keep_s,
            "Seconds a paused sandbox stays in memory; 300, then its checkpoint takes over");
  command
      ->add_option("--shutdown-limit", options->shutdown_limit_s,
                   "Seconds 'space down' may take to keep what runs; 60")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--egress-default", options->egress_default,
                   "What a sandbox reaches whose creator says nothing: allow_all (shipped), restricted or "
                   "deny_all")
      ->check(CLI::IsMember({"allow_all", "restricted", "deny_all"}));
  command->add_flag("--egress-internal", options->egress_internal,
                    "API keys may open private addresses to their sandboxes (\"internal\" of a policy)");
  command->add_option("--resolver", options->resolvers,
                      "ADDRESS[:PORT] of a name server for sandboxes; may be repeated (default: those of "
                      "/etc/resolv.conf)");
  command->add_flag("-d,--detach", options->detach, "Return once everything is ready");
  command->footer(
      "Examples:\n"
      "  sudo space up -d\n"
      "  sudo space up --pool-mib 65536 --memory-limit-mib 16384\n"
      "  sudo space up --egress-default deny_all --resolver 9.9.9.9");
  command->callback([&program, command, options] {
    const auto given = [command](const char* flag) { return command->count(flag) > 0; };
    program.code = command_up(program.common, *options, given("--state"), given("--run"), given("--listen"));
  });
}

void add_down(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "down", "Keep every sandbox on the disk and stop; 'space up' brings them back");
  const auto options = std::make_shared<DownOptions>();
  add_directories(command, options->directories);
  add_config(command, options->config);
  CLI::Option* all = command->add_flag("--all", options->all, "Kill every sandbox and unmount the pool");
  command
      ->add_flag("--keep-running", options->keep_running,
                 "Stop the daemons only: virtual machines and commands run on without them")
      ->excludes(all);
  command->footer(
      "Examples:\n"
      "  sudo space down                   before a reboot: a checkpoint of each running sandbox\n"
      "  sudo space down --keep-running    before an upgrade: 'space up' finds them running\n"
      "  sudo space down --all             nothing is kept");
  program.on_call_here(command, options, command_down);
}

void add_env(Program& program) {
  CLI::App* command = program.app.add_subcommand(
      "env", "Print the variables that lead an E2B SDK here, the API key included");
  command->footer("Example: eval \"$(sudo space env)\"");
  command->callback([&program] { program.code = command_env(program.common); });
}

}  // namespace

void add_platform(Program& program) {
  add_up(program);
  add_down(program);
  add_env(program);
}

}  // namespace space::cli
