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
#include "sandboxd/node.h"

namespace {

space::NodeOptions parse(int argc, char** argv) {
  space::NodeOptions options;
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    std::exit(status);
  }
  if (accelerator == "tcg") options.accelerator = space::MachineAccelerator::tcg;
  if (accelerator == "kvm") options.accelerator = space::MachineAccelerator::kvm;
  return options;
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
  boost::asio::signal_set stop(loop, SIGTERM, SIGINT);
  stop.async_wait([&](boost::system::error_code, int) { loop.stop(); });
  spawn(loop.get_executor(), "node", (*node)->run());
  log::info("started");
  loop.run();

  // Stopping is a crash with a log line: what must survive is on disk already, and the VMs run on.
  log::info("stopped");
  std::_Exit(0);
}
