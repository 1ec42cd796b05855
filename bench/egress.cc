// The gateway against nginx's stream proxy and against no proxy: bytes, connections, answers of DNS, memory,
// and what a flooding sandbox does to its neighbour. Gates of space-netd on loopback sockets; the policy is
// asked for each.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/log.h"
#include "bench/egress_peers.h"
#include "bench/report.h"

namespace space::bench {
namespace {

constexpr std::string_view bench = "egress";
constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t transfer_bytes = 256 * mib;
constexpr int connects = 200;  // of a round, each way
constexpr int idle_flows = 5'000;

struct World {
  std::uint16_t greet, source, refuse;         // servers
  std::uint16_t up, down, neighbour, flooded;  // gates
  std::uint16_t peer_up, peer_down;            // nginx; 0: there is none
  ChildProcess servers, refusing, gates, nginx;
};

Result<Servers> open_servers() {
  Servers servers;
  SPACE_TRY(servers.greet, loopback_socket(SOCK_STREAM));
  SPACE_TRY(servers.source, loopback_socket(SOCK_STREAM));
  return servers;
}

Result<GateSockets> open_gate_sockets() {
  GateSockets gates;
  for (Fd* listener : {&gates.up, &gates.down, &gates.neighbour, &gates.flooded}) {
    SPACE_TRY(*listener, loopback_socket(SOCK_STREAM));
  }
  return gates;
}

Result<std::uint16_t> free_port() {
  SPACE_TRY(const Fd socket, loopback_socket(SOCK_STREAM));
  return port_of(socket);
}

Result<World> make_world(const std::string& folder) {
  World world{};
  SPACE_TRY(const Servers servers, open_servers());
  Servers refusing;  // in a process of its own: what it does shall not be felt at the others
  SPACE_TRY(refusing.refuse, loopback_socket(SOCK_STREAM));
  SPACE_TRY(GateSockets gates, open_gate_sockets());
  world.greet = port_of(servers.greet);
  world.source = port_of(servers.source);
  world.refuse = port_of(refusing.refuse);
  world.up = port_of(gates.up);
  world.down = port_of(gates.down);
  world.neighbour = port_of(gates.neighbour);
  world.flooded = port_of(gates.flooded);
  SPACE_TRY(world.servers, start_servers(servers, transfer_bytes));
  SPACE_TRY(world.refusing, start_servers(refusing, 0));
  SPACE_TRY(world.gates, start_gates(std::move(gates), world.greet, world.source));
  const char* const program = std::getenv("SPACE_NGINX");
  const char* const module = std::getenv("SPACE_NGINX_STREAM");
  if (program == nullptr || module == nullptr) return world;
  SPACE_TRY(world.peer_up, free_port());
  SPACE_TRY(world.peer_down, free_port());
  SPACE_TRY(world.nginx,
            start_nginx(program, module, folder, world.peer_up, world.peer_down, world.greet, world.source));
  return world;
}

// Until the server has said its first byte; nothing when there is no such proxy.
Result<Fd> greeted(std::uint16_t port) {
  SPACE_TRY(Fd fd, connect_loopback(port));
  char byte = 0;
  if (::recv(fd.get(), &byte, 1, 0) != 1)
    return fail(Code::unavailable, "no greeting came from port {}", port);
  return fd;
}

Result<void> time_connect(std::uint16_t port, Samples& samples) {
  const Stopwatch watch;
  SPACE_TRY(const Fd fd, greeted(port));
  samples.add(watch.ms());
  return {};
}

Result<double> upload(std::uint16_t port) {
  SPACE_TRY(const Fd fd, greeted(port));
  const std::vector<char> block(256 * 1024, 'x');
  const Stopwatch watch;
  for (std::int64_t left = transfer_bytes; left > 0;) {
    const auto size = std::min<std::int64_t>(left, static_cast<std::int64_t>(block.size()));
    const ssize_t n = ::send(fd.get(), block.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL);
    if (n <= 0) return fail_errno(errno, "send");
    left -= n;
  }
  ::shutdown(fd.get(), SHUT_WR);
  char byte = 0;
  const ssize_t n = ::recv(fd.get(), &byte, 1, 0);
  if (n < 0) return fail_errno(errno, "wait for the server to confirm");
  if (n == 0) return fail(Code::unavailable, "the server behind port {} did not confirm", port);
  return static_cast<double>(transfer_bytes) / mib / watch.ms() * 1000;
}

Result<double> download(std::uint16_t port) {
  std::vector<char> block(256 * 1024);
  const Stopwatch watch;
  SPACE_TRY(const Fd fd, connect_loopback(port));
  std::int64_t got = 0;
  for (ssize_t n = 1; n > 0; got += n) {
    n = ::recv(fd.get(), block.data(), block.size(), 0);
    if (n < 0) return fail_errno(errno, "recv");
  }
  if (got != transfer_bytes) return fail(Code::unavailable, "{} of {} bytes came", got, transfer_bytes);
  return static_cast<double>(transfer_bytes) / mib / watch.ms() * 1000;
}

Result<void> measure_relay(const World& world, int rounds) {
  Samples up, down, peer_up, peer_down;
  for (int i = 0; i < rounds; ++i) {
    SPACE_TRY(const double ours_up, upload(world.up));
    SPACE_TRY(const double ours_down, download(world.down));
    up.add(ours_up);
    down.add(ours_down);
    if (world.peer_up == 0) continue;
    SPACE_TRY(const double theirs_up, upload(world.peer_up));
    SPACE_TRY(const double theirs_down, download(world.peer_down));
    peer_up.add(theirs_up);
    peer_down.add(theirs_down);
  }
  print(bench, "relay_throughput_up", up, Peer{"nginx_stream", peer_up, 0.8}, {}, "MiB/s");
  print(bench, "relay_throughput_down", down, Peer{"nginx_stream", peer_down, 0.8}, {}, "MiB/s");
  return {};
}

Result<void> measure_connect(const World& world, int rounds) {
  Samples direct, ours, theirs, added, their_added;
  for (int i = 0; i < rounds * connects; ++i) {
    SPACE_CHECK(time_connect(world.greet, direct));
    SPACE_CHECK(time_connect(world.up, ours));
    if (world.peer_up != 0) SPACE_CHECK(time_connect(world.peer_up, theirs));
  }
  print(bench, "connect_ms", ours, Peer{"nginx_stream", theirs});
  added.add(ours.percentile(50) - direct.percentile(50));
  if (theirs.size() > 0) their_added.add(theirs.percentile(50) - direct.percentile(50));
  print(bench, "connect_added_ms", added, Peer{"nginx_stream", their_added}, 0.3);
  return {};
}

Result<void> measure_idle(const World& world) {
  const std::int64_t before = world.gates.rss_kib();
  std::vector<Fd> flows;
  for (int i = 0; i < idle_flows; ++i) {
    SPACE_TRY(flows.emplace_back(), greeted(world.up));
  }
  Samples each;
  each.add(static_cast<double>(world.gates.rss_kib() - before) / idle_flows);
  print(bench, "idle_flow_kib", each, {}, {}, "KiB");
  return {};
}

// Connects to `port` as fast as it can, and lets go at once.
void flood(std::uint16_t port) {
  while (true) {
    auto fd = connect_loopback(port);
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    if (fd) ::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
}

Result<double> neighbour_p99(const World& world) {
  Samples samples;
  for (int i = 0; i < connects; ++i) SPACE_CHECK(time_connect(world.neighbour, samples));
  return samples.percentile(99);
}

// What the neighbour's connects take while somebody floods `port`.
Result<double> neighbour_p99_beside(const World& world, std::uint16_t port) {
  SPACE_TRY(const ChildProcess flooder, start_child([port] { flood(port); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return neighbour_p99(world);
}

// The flooding program itself takes a processor: the same one, at a server that has nothing to do with the
// gateway, is what it is compared to. Without any flood the neighbour has a processor more.
Result<void> measure_flood(const World& world, int rounds) {
  Samples flooded, elsewhere, quiet;
  for (int i = 0; i < rounds; ++i) {
    SPACE_TRY(const double here, neighbour_p99_beside(world, world.flooded));
    SPACE_TRY(const double there, neighbour_p99_beside(world, world.refuse));
    SPACE_TRY(const double nowhere, neighbour_p99(world));
    flooded.add(here);
    elsewhere.add(there);
    quiet.add(nowhere);
  }
  print(bench, "neighbour_p99_of_flooding_ms", flooded, Peer{"flood_elsewhere", elsewhere, 1.2});
  print(bench, "neighbour_p99_without_flood_ms", quiet);
  return {};
}

Result<void> measure(const std::string& folder, int rounds) {
  print_machine(bench);
  SPACE_TRY(const World world, make_world(folder));
  SPACE_CHECK(measure_idle(world));
  SPACE_CHECK(measure_connect(world, rounds));
  SPACE_CHECK(measure_relay(world, rounds));
  return measure_flood(world, rounds);
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  space::log::init("egress_bench");
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  char folder[] = "/tmp/space-egress-bench.XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const auto done = space::bench::measure(folder, argc > 1 ? std::atoi(argv[1]) : 5);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!done) space::log::error("the benchmark failed", {space::log::Field(done.error())});
  return done ? 0 : 1;
}
