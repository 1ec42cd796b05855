#include "netd/confinement.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "base/unix_address.h"
#include "confine/attacks.h"
#include "net/noded_link.h"
#include "netd/ares_upstream.h"
#include "netd/dialer.h"
#include "netd/policy_files.h"

namespace space::netd {
namespace {

using confine::Attack;
using confine::outcome_of;

class NetdConfinement : public testing::Test {
 protected:
  std::string under_confinement(const Attack& attack) const {
    return outcome_of(attack,
                      [&] { return confine::confine_daemon(confinement(state_.folder, run_.folder)); });
  }
  confine::Targets state_, run_;  // the daemon's own folders
  confine::Targets foreign_;      // somebody else's
};

TEST_F(NetdConfinement, every_attack_by_system_call_ends_the_process) {
  for (const Attack& attack : attacks_by_system_call(foreign_)) {
    std::string expected = "SIGSYS";
    if (attack.name == "clone a process, version 3") expected = "ENOSYS";
    // Going out is its work.
    if (attack.name.starts_with("a socket to the network")) expected = "succeeded";
    EXPECT_EQ(under_confinement(attack), expected) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

TEST_F(NetdConfinement, no_file_but_its_own_is_reached) {
  const std::string refused = confine::landlock_abi() > 0 ? "EACCES" : "succeeded";
  for (const Attack& attack : attacks_on_files(foreign_)) {
    EXPECT_EQ(under_confinement(attack), refused) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

// What the process opens before it is confined, or others do.
struct Surroundings {
  explicit Surroundings(const std::string& run_folder) : path(run_folder + "/noded.sock") {
    const SocketAddress any = to_sockaddr(*IpAddress::parse("127.0.0.1"), std::uint16_t{0});
    server.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ready = ::bind(server.get(), any.get(), any.size) == 0 && ::listen(server.get(), 8) == 0;
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    ::getsockname(server.get(), reinterpret_cast<sockaddr*>(&local), &size);
    port = ntohs(reinterpret_cast<const sockaddr_in*>(&local)->sin_port);
    noded.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto address = UnixAddress::of(path);
    ready = ready && address && ::bind(noded.get(), address->get(), address->size()) == 0 &&
            ::listen(noded.get(), 8) == 0;
  }
  std::string path;
  Fd server, noded;
  std::uint16_t port = 0;
  bool ready = false;
};

Task<void> live(const Surroundings* around, int* failed) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  // Nobody is at the port: what counts is that the question went out.
  const auto upstream =
      make_ares_upstream(executor, {{.address = *IpAddress::parse("127.0.0.1"), .port = 9}});
  const auto reply = co_await upstream->ask("example.com", DnsType::a, Deadline::after(Millis(5'000)));
  if (reply || reply.error().code == Code::internal) *failed = EPROTO;
  const auto check = [](const IpAddress&) { return true; };
  const auto dialled = co_await dial({*IpAddress::parse("127.0.0.1")}, around->port, {.check = check},
                                     Deadline::after(Millis(5'000)));
  if (!dialled) *failed = ECONNREFUSED;
  const Fd accepted(::accept4(around->server.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) *failed = ECONNABORTED;
  const auto link = NodedLink::connect(executor, around->path);
  if (!link) *failed = ENOTCONN;
  if (link) link->close();
}

// A policy on the disk, a name, a connection out and one in, and the node manager.
long work(const std::string& state, const Surroundings& around) {
  const PolicyFiles files(state);
  const std::string id = "i0000000000000000000";
  if (!files.write(id, {.policy = {}, .generation = 3})) return -EIO;
  const auto read = files.read_all();
  if (!read || read->size() != 1 || !files.remove(id)) return -ENOENT;
  boost::asio::io_context loop;
  int failed = around.ready ? 0 : EADDRNOTAVAIL;
  spawn(loop.get_executor(), "live", live(&around, &failed));
  loop.run();
  return -failed;
}

TEST_F(NetdConfinement, its_work_is_possible) {
  const Surroundings around(run_.folder);
  const auto attempt = [&] { return work(state_.folder, around); };
  EXPECT_EQ(under_confinement({"work", {}, attempt}), "succeeded");
}

}  // namespace
}  // namespace space::netd
