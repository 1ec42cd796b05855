#include "sandboxd/confinement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "base/fd.h"
#include "base/unix_address.h"
#include "confine/attacks.h"
#include "net/stream.h"
#include "sandboxd/journal.h"
#include "sandboxd/vm_sockets.h"
#include "sandboxd/vmm_usage.h"

namespace space {
namespace {

using confine::Attack;
using confine::outcome_of;

class SandboxdConfinement : public testing::Test {
 protected:
  std::string under_confinement(const Attack& attack) const {
    return outcome_of(
        attack, [&] { return confine::confine_daemon(sandboxd_confinement(state_.folder, run_.folder)); });
  }
  confine::Targets state_, run_;  // the daemon's own folders
  confine::Targets foreign_;      // somebody else's
};

TEST_F(SandboxdConfinement, every_attack_by_system_call_ends_the_process) {
  for (const Attack& attack : attacks_by_system_call(foreign_)) {
    std::string expected = "SIGSYS";
    if (attack.name == "clone a process, version 3") expected = "ENOSYS";
    if (attack.name == "a file in memory") expected = "succeeded";  // QEMU writes device states into one
    EXPECT_EQ(under_confinement(attack), expected) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

TEST_F(SandboxdConfinement, no_file_but_its_own_is_reached) {
  const std::string refused = confine::landlock_abi() > 0 ? "EACCES" : "succeeded";
  for (const Attack& attack : attacks_on_files(foreign_)) {
    EXPECT_EQ(under_confinement(attack), refused) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

// It connects to unix sockets, so it may call connect; the port is out of reach all the same.
TEST_F(SandboxdConfinement, it_connects_to_no_port_and_takes_none) {
  const std::string refused = confine::landlock_abi() >= 4 ? "EACCES" : "succeeded";
  for (const Attack& attack : confine::attacks_on_ports()) {
    EXPECT_EQ(under_confinement(attack), refused) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

// Journal, a VM's sockets and a connection to one of them, a process's figures, work for the pool's threads.
long work(const std::string& state, const std::string& run) {
  if (!Journal::open(state + "/journal.db")) return -EIO;
  const auto sockets = open_vm_sockets(run + "/vm");
  if (!sockets) return -ENOTSOCK;
  if (!read_vmm_usage(::getppid())) return -ESRCH;
  boost::asio::io_context loop;
  bool done = false;
  const auto life = [](std::string path, bool& finished) -> Task<void> {
    const auto stream = co_await connect_unix(path, Deadline::after(Millis(5'000)));
    const int answer = co_await run_blocking([] { return 42; });
    finished = stream.has_value() && answer == 42;
  };
  spawn(loop.get_executor(), "life", life(qmp_path(run + "/vm"), done));
  loop.run();
  return done && remove_vm_sockets(run + "/vm") ? 0 : -ECONNREFUSED;
}

TEST_F(SandboxdConfinement, its_work_is_possible) {
  EXPECT_EQ(under_confinement({"work", {}, [&] { return work(state_.folder, run_.folder); }}), "succeeded");
}

}  // namespace
}  // namespace space
