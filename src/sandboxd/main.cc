// space-sandboxd, the sandbox manager: the truth about this node's live sandboxes. Unprivileged.
#include <signal.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdlib>

#include "api/noded.h"
#include "base/log.h"
#include "sandboxd/confinement.h"
#include "sandboxd/control_link.h"
#include "sandboxd/faults.h"
#include "sandboxd/node.h"

namespace {

space::NodeOptions parse(int argc, char** argv) {
  space::NodeOptions options;
  options.version = SPACE_VERSION;
  std::string accelerator = "auto";
  CLI::App app("SPACE sandbox manager");
  app.add_option("--state", options.state_folder, "folder that outlives a reboot")->capture_default_str();
  app.add_option("--run", options.run_folder, "folder for sockets")->capture_default_str();
  app.add_option("--accelerator", accelerator, "auto probes KVM")
      ->check(CLI::IsMember({"auto", "tcg", "kvm"}));
  app.add_option("--sample-interval", options.sample_interval_s,
                 "seconds between two samples of a sandbox's activity")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--memory-limit-mib", options.memory_limit_mib,
                 "memory promised to sandboxes at most (0: nine tenths of the machine's)")
      ->check(CLI::NonNegativeNumber);
  const auto add_limit = [&app](const char* flag, std::int64_t& value, std::int64_t max, const char* what) {
    app.add_option(flag, value, what)->capture_default_str()->check(CLI::Range(std::int64_t{0}, max));
  };
  add_limit("--disk-mib-per-s", options.io_limits.disk_mib_per_s, space::noded::disk_mib_per_s_max,
            "of each sandbox's disk, 0: no limit");
  add_limit("--disk-iops", options.io_limits.disk_iops, space::noded::disk_iops_max,
            "operations per second of each sandbox's disk, 0: no limit");
  add_limit("--network-mbit-per-s", options.io_limits.network_mbit_per_s, space::noded::network_mbit_max,
            "of each sandbox's network, each way, 0: no limit");
  app.add_flag("--allow-tcg-multitenant", options.allow_tcg_multitenant,
               "run several teams' sandboxes also where there is no hardware isolation");
  app.add_option("--daemon", options.daemon_path,
                 "program of the guest's daemon, for guests whose own is older");
  app.add_option("--warm-pool", options.pool.target, "VMs parked for each template's default shape")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  app.add_option("--warm-pool-max", options.pool.max, "VMs parked in all")
      ->capture_default_str()
      ->check(CLI::Range(0, 10'000));
  app.add_option("--hot-keep-s", options.hot_keep_s, "seconds a paused sandbox stays in memory")
      ->capture_default_str()
      ->check(CLI::Range(0, 365 * 24 * 3600));
  app.add_option("--shutdown-limit-s", options.shutdown_limit_s,
                 "seconds in which SIGTERM keeps what runs on the pool")
      ->capture_default_str()
      ->check(CLI::Range(0, 3600));
  app.add_option("--slot-check-s", options.slot_check_s, "seconds between two looks at the network slots")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--fork-keep-s", options.fork_keep_s,
                 "seconds a snapshot that was made for a fork stays at least")
      ->capture_default_str()
      ->check(CLI::Range(0, 365 * 24 * 3600));
  std::string recovery(space::to_string(options.recovery));
  app.add_option("--recovery", recovery,
                 "what a sandbox that names nothing goes on from when its VMM died: its disk, its newest "
                 "checkpoint, or nothing")
      ->capture_default_str()
      ->check(CLI::IsMember({"disk", "checkpoint", "none"}));
  std::vector<std::string> faults;
  app.add_option("--fault", faults, "for tests: spoil something")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    std::exit(status);
  }
  for (const std::string& fault : faults) {
    if (const auto on = space::switch_on_fault(fault); !on) {
      space::log::error("bad option", {space::log::Field(on.error())});
      std::exit(2);
    }
  }
  options.recovery = space::recovery_policy_from(recovery).value_or(options.recovery);
  if (accelerator == "tcg") options.accelerator = space::MachineAccelerator::tcg;
  if (accelerator == "kvm") options.accelerator = space::MachineAccelerator::kvm;
  return options;
}

space::Task<void> shut_down(space::Node& node, boost::asio::io_context& loop) {
  co_await node.shut_down();
  loop.stop();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace space;
  log::init("space-sandboxd");
  ::umask(0077);
  ::signal(SIGPIPE, SIG_IGN);
  const auto options = parse(argc, argv);

  boost::asio::io_context loop;
  const auto node = Node::open(loop.get_executor(), options);
  if (!node) {
    log::error("cannot start", {log::Field(node.error())});
    return 1;
  }
  const auto confined = confine::confine_daemon(
      sandboxd_confinement(options.state_folder + "/sandboxd", options.run_folder + "/sandboxd"));
  if (!confined) {
    log::error("cannot confine itself", {log::Field(confined.error())});
    return 1;
  }
  // SIGQUIT: at once, as in a crash; the VMs run on.
  boost::asio::signal_set quit(loop, SIGQUIT);
  quit.async_wait([&](boost::system::error_code, int) { loop.stop(); });
  boost::asio::signal_set stop(loop, SIGTERM, SIGINT);
  stop.async_wait([&](boost::system::error_code, int) {
    spawn(loop.get_executor(), "shut down", shut_down(**node, loop));
  });
  spawn(loop.get_executor(), "node", (*node)->run());
  log::info("started");
  loop.run();

  // From here stopping is a crash with a log line: what must survive is on disk already.
  log::info("stopped");
  std::_Exit(0);
}
