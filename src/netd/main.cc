// space-netd, the network gateway: the only way out of sandboxes. Unprivileged; the sockets of their network
// slots come from space-noded, the policies from space-sandboxd.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <list>
#include <thread>

#include "base/fd.h"
#include "base/log.h"
#include "netd/ares_upstream.h"
#include "netd/confinement.h"
#include "netd/host_addresses.h"
#include "netd/rpc.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr int loops_max = 64;
constexpr int loops_default_max = 8;
constexpr int descriptors_of_process = 128;
constexpr int descriptors_of_loop = static_cast<int>(Resolver::max_under_way) + 16;
constexpr std::size_t resolv_conf_bytes_max = 64 * 1024;
constexpr Millis address_pause = 200ms;  // interfaces come with several addresses

struct Options {
  std::string state_folder = "/var/lib/space";
  std::string run_folder = "/run/space";
  uid_t sandboxd_uid = 0;
  std::vector<std::string> resolvers;
  std::vector<std::string> deny;
  int loops = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("SPACE network gateway");
  app.add_option("--state", options.state_folder, "folder that outlives a reboot")->capture_default_str();
  app.add_option("--run", options.run_folder, "folder for sockets")->capture_default_str();
  app.add_option("--sandboxd-uid", options.sandboxd_uid, "user of space-sandboxd")->required();
  app.add_option("--resolver", options.resolvers, "ADDR[:PORT] of a resolver (default: /etc/resolv.conf's)");
  app.add_option("--deny", options.deny, "CIDR that no sandbox may reach, besides private addresses");
  app.add_option("--loops", options.loops, "event loops (0: one a core)")->check(CLI::Range(0, loops_max));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

Result<std::vector<ResolverEndpoint>> resolvers_for(const Options& options) {
  std::vector<ResolverEndpoint> resolvers;
  for (const std::string& text : options.resolvers) {
    SPACE_TRY(resolvers.emplace_back(), parse_resolver_endpoint(text));
  }
  if (!resolvers.empty()) return resolvers;
  const auto file = read_file("/etc/resolv.conf", resolv_conf_bytes_max);
  if (file) resolvers = resolvers_of(*file);
  if (resolvers.empty()) log::warn("no resolver: names will not be resolved");
  return resolvers;
}

Result<std::vector<Cidr>> denied_by_operator(const Options& options) {
  std::vector<Cidr> denied;
  for (const std::string& text : options.deny) {
    SPACE_TRY(denied.emplace_back(), Cidr::parse(text));
  }
  return denied;
}

// As many as the system allows, less what is not for flows.
int descriptor_budget(int loops) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int all = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 22));
  const int reserve = std::min(descriptors_of_process + loops * descriptors_of_loop, all / 2);
  log::info("descriptors", {{"for_flows", all - reserve}, {"limit", all}});
  return all - reserve;
}

Result<std::shared_ptr<const PlatformDeny>> platform_of(HostAddresses& host, std::vector<Cidr> denied) {
  SPACE_TRY(const std::vector<Cidr> own, host.read());
  denied.insert(denied.end(), own.begin(), own.end());
  return std::make_shared<const PlatformDeny>(std::move(denied));
}

Task<void> follow_addresses(HostAddresses& host, Gateway& gateway, std::vector<Cidr> denied) {
  while (true) {
    if (const auto changed = co_await host.wait_for_change(); !changed)
      log::error("the node's addresses are not followed", {log::Field(changed.error())});
    auto platform = platform_of(host, denied);
    if (platform) {
      co_await gateway.set_platform(*std::move(platform));
      log::info("addresses of the node have changed");
    } else {
      log::error("the node's addresses are not read", {log::Field(platform.error())});
    }
    co_await sleep_for(address_pause);
  }
}

// All of the process that lives to its end.
struct Process {
  struct Loop {
    asio::io_context context{1};
    // Only so that a loop has its descriptors from the start, not from its first sandbox.
    asio::steady_timer opened{context};
    std::unique_ptr<LoopParts> parts;
  };
  FdBudget descriptors;
  std::list<Loop> loops;
  std::vector<std::thread> threads;

  void add_loop(const std::vector<ResolverEndpoint>& resolvers,
                const std::shared_ptr<const PlatformDeny>& platform) {
    Loop& loop = loops.emplace_back();
    const Executor executor = loop.context.get_executor();
    loop.parts = std::make_unique<LoopParts>(
        LoopParts{.executor = executor,
                  .resolver = std::make_unique<Resolver>(executor, make_ares_upstream(executor, resolvers)),
                  .descriptors = descriptors,
                  .platform = platform});
  }
  // All but the first, which is the caller's.
  void start_threads() {
    for (auto loop = std::next(loops.begin()); loop != loops.end(); ++loop)
      threads.emplace_back([&context = loop->context] {
        const auto work = asio::make_work_guard(context);
        context.run();
      });
  }
  std::vector<LoopParts*> parts() {
    std::vector<LoopParts*> all;
    for (Loop& loop : loops) all.push_back(loop.parts.get());
    return all;
  }
};

Result<void> serve(const Options& options) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int loops = options.loops > 0 ? options.loops : std::min(cores, loops_default_max);
  SPACE_TRY(const auto resolvers, resolvers_for(options));
  SPACE_TRY(const auto denied, denied_by_operator(options));
  SPACE_TRY(GatewayDoor door,
            GatewayDoor::open(options.run_folder + "/netd/netd.sock", options.sandboxd_uid));
  SPACE_TRY(HostAddresses host, HostAddresses::open());
  Process process{.descriptors = FdBudget(descriptor_budget(loops)), .loops = {}, .threads = {}};
  SPACE_CHECK(
      confine::confine_daemon(confinement(options.state_folder + "/netd", options.run_folder + "/netd")));
  SPACE_TRY(const auto platform, platform_of(host, denied));
  for (int i = 0; i < loops; ++i) process.add_loop(resolvers, platform);

  asio::io_context& loop = process.loops.front().context;
  const auto slots = make_noded_slots(loop.get_executor(), options.run_folder + "/noded/noded.sock");
  PolicyFiles files(options.state_folder + "/netd");
  Gateway gateway({.loops = process.parts(), .slots = *slots, .files = files});
  GatewayRpc rpc(gateway);
  asio::signal_set stop(loop, SIGTERM, SIGINT, SIGQUIT);
  stop.async_wait([](boost::system::error_code, int) {
    // What must survive is on the disk; sockets close with the process.
    log::info("stopped");
    std::_Exit(0);
  });
  process.start_threads();
  spawn(loop.get_executor(), "recover", gateway.recover());
  spawn(loop.get_executor(), "addresses", follow_addresses(host, gateway, denied));
  spawn(loop.get_executor(), "gateway door", door.serve(rpc));
  log::info("started", {{"loops", loops}});
  loop.run();
  return {};
}

}  // namespace
}  // namespace space::netd

int main(int argc, char** argv) {
  using namespace space;
  log::init("space-netd");
  ::umask(0077);
  ::signal(SIGPIPE, SIG_IGN);
  if (const auto served = netd::serve(netd::parse(argc, argv)); !served) {
    log::error("cannot start", {log::Field(served.error())});
    return 1;
  }
}
