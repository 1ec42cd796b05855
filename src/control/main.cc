// space-control: the control plane. Parses the internet, keeps the records, leads requests into sandboxes.
#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>

#include "base/log.h"
#include "control/bootstrap.h"
#include "control/confinement.h"
#include "control/edge.h"
#include "control/peer_listener.h"
#include "store/sqlite_repository.h"

namespace space::control {
namespace {

constexpr Millis farewell{500};

struct Options {
  std::string state = "/var/lib/space";
  std::string run = "/run/space";
  std::string listen = "127.0.0.1:3000";
  std::string domain;
  uid_t node_uid = 0;
  std::int64_t timeout_max_hours = 0;
  std::string egress_default = "allow_all";
  bool egress_internal = false;
};

struct ListenAddress {
  std::string host;
  std::uint16_t port;
};

Result<ListenAddress> parse_listen(const std::string& text) {
  const auto colon = text.rfind(':');
  unsigned long port = 0;
  if (colon != std::string::npos) port = std::strtoul(text.c_str() + colon + 1, nullptr, 10);
  if (port == 0 || port > 65535)
    return fail(Code::invalid_argument, "--listen must be ADDRESS:PORT, not '{}'", text);
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return ListenAddress{host, static_cast<std::uint16_t>(port)};
}

std::string url_of(const ListenAddress& address) {
  std::string host = address.host;
  if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.contains(':')) host = "[" + host + "]";
  return fmt::format("http://{}:{}", host, address.port);
}

ServiceLimits limits_of(const Options& options) {
  ServiceLimits limits;
  if (options.timeout_max_hours > 0) limits.timeout_max_s = options.timeout_max_hours * 3600;
  for (const auto mode : {EgressMode::allow_all, EgressMode::restricted, EgressMode::deny_all})
    if (to_string(mode) == options.egress_default) limits.egress_default = mode;
  limits.egress_internal = options.egress_internal;
  return limits;
}

// Everything the process is made of, in the order of its making.
struct ControlPlane {
  ControlPlane(const Executor& executor, store::Repository& rows, const Options& options)
      : repository(rows),
        nodes(executor),
        sandboxes(executor, rows, nodes, system_clock(), limits_of(options)),
        auth(rows, system_clock()),
        api(rows, sandboxes, nodes, auth, system_clock(), options.domain),
        proxy(sandboxes, nodes),
        signed_urls(sandboxes, system_clock()),
        edge(executor, api, proxy, signed_urls) {}

  store::Repository& repository;
  NodeLink nodes;
  SandboxService sandboxes;
  Auth auth;
  Api api;
  Proxy proxy;
  SignedUrls signed_urls;
  Edge edge;
};

Task<void> accept_nodes(const Executor executor, PeerListener listener, ControlPlane& plane) {
  while (true) {
    auto stream = co_await listener.accept();
    if (stream) {
      spawn(executor, "node", plane.nodes.serve(*std::move(stream), plane.sandboxes));
    } else {
      log::warn("node connection not accepted", {log::Field(stream.error())});
      co_await sleep_for(Millis(100));
    }
  }
}

// What it listens on. Open before anything else, because opening is not possible any more once it is
// confined.
struct Doors {
  PeerListener nodes;
  std::unique_ptr<Listener> clients;
};

Result<Doors> open_doors(const Executor& executor, const Options& options) {
  SPACE_TRY(const ListenAddress address, parse_listen(options.listen));
  SPACE_TRY(auto clients, listen_tcp(executor, address.host, address.port));
  SPACE_TRY(auto nodes, PeerListener::open(executor, options.run + "/control/node.sock", options.node_uid));
  return Doors{std::move(nodes), std::move(clients)};
}

Task<Result<void>> start(const Executor executor, ControlPlane& plane, Doors doors, Options options) {
  SPACE_CO_TRY(const ListenAddress address, parse_listen(options.listen));
  SPACE_CO_CHECK(co_await bootstrap(plane.repository, options.state + "/control", url_of(address),
                                    system_clock().wall()));
  SPACE_CO_CHECK(co_await plane.sandboxes.start());
  spawn(executor, "timeouts", plane.sandboxes.run_timeouts());
  spawn(executor, "node door", accept_nodes(executor, std::move(doors.nodes), plane));
  spawn(executor, "client door", plane.edge.run(std::move(doors.clients)));
  log::info("ready", {{"url", url_of(address)}});
  co_return Result<void>();
}

Task<void> start_or_stop(boost::asio::io_context& loop, ControlPlane& plane, Doors doors, Options options,
                         int& exit_code) {
  const auto started = co_await start(loop.get_executor(), plane, std::move(doors), std::move(options));
  if (started) co_return;
  log::error("cannot start", {log::Field(started.error())});
  exit_code = 1;
  loop.stop();
}

// Clients hear of it; what can be answered in short time is.
Task<void> stop(boost::asio::io_context& loop, Edge& edge) {
  co_await edge.retire(Deadline::after(farewell));
  loop.stop();
}

int serve(boost::asio::io_context& loop, Doors doors, const Options& options) {
  auto repository = store::open_sqlite_repository(options.state + "/control/control.db");
  if (!repository) {
    log::error("cannot open the database", {log::Field(repository.error())});
    return 1;
  }
  int exit_code = 0;
  ControlPlane plane(loop.get_executor(), **repository, options);
  boost::asio::signal_set signals(loop, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int signal) {
    log::info("stopping", {{"signal", signal}});
    spawn(loop.get_executor(), "stop", stop(loop, plane.edge));
  });
  spawn(loop.get_executor(), "start", start_or_stop(loop, plane, std::move(doors), options, exit_code));
  loop.run();
  repository->reset();  // what was handed to the database is written
  return exit_code;
}

int run(const Options& options) {
  boost::asio::io_context loop(1);
  auto doors = open_doors(loop.get_executor(), options);
  if (!doors) {
    log::error("cannot listen", {log::Field(doors.error())});
    return 1;
  }
  // Before the database, which has a thread.
  if (auto confined = confine::confine_daemon(confinement(options.state + "/control")); !confined) {
    log::error("cannot confine itself", {log::Field(confined.error())});
    return 1;
  }
  return serve(loop, *std::move(doors), options);
}

}  // namespace
}  // namespace space::control

int main(int argc, char** argv) {
  space::log::init("space-control");
  space::control::Options options;
  CLI::App app("The control plane of SPACE: API, placement, data plane", "space-control");
  app.add_option("--state", options.state, "Directory of what lasts")->capture_default_str();
  app.add_option("--run", options.run, "Directory of sockets")->capture_default_str();
  app.add_option("--listen", options.listen, "Address and port of the API and the data plane")
      ->capture_default_str();
  app.add_option("--domain", options.domain, "Domain of sandbox host names told to clients");
  app.add_option("--node-uid", options.node_uid, "User that may connect as the node")->required();
  app.add_option("--timeout-max-hours", options.timeout_max_hours,
                 "Longest life of a sandbox that can be asked for; 0: any, and \"never\" too")
      ->check(CLI::Range(0, 24 * 365 * 100))
      ->capture_default_str();
  app.add_option(
         "--egress-default", options.egress_default,
         "What a sandbox may reach whose creator says nothing: allow_all, restricted (nothing until a "
         "rule allows it) or deny_all")
      ->check(CLI::IsMember({"allow_all", "restricted", "deny_all"}))
      ->capture_default_str();
  app.add_flag("--egress-internal", options.egress_internal,
               "API keys may open addresses that are closed to every sandbox (\"internal\" of a policy)");
  CLI11_PARSE(app, argc, argv);
  return space::control::run(options);
}
