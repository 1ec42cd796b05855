#include "control/confinement.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>

#include "confine/attacks.h"
#include "control/bootstrap.h"
#include "store/sqlite_repository.h"

namespace space::control {
namespace {

using confine::Attack;
using confine::outcome_of;

class Confinement : public testing::Test {
 protected:
  std::string under_confinement(const Attack& attack) const {
    return outcome_of(attack, [&] { return confine::confine_daemon(confinement(own_.folder)); });
  }
  confine::Targets own_;      // the daemon's own folder
  confine::Targets foreign_;  // somebody else's
};

TEST_F(Confinement, every_attack_by_system_call_ends_the_process) {
  for (const Attack& attack : attacks_by_system_call(foreign_)) {
    const bool falls_back = attack.name == "clone a process, version 3";
    EXPECT_EQ(under_confinement(attack), falls_back ? "ENOSYS" : "SIGSYS") << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

TEST_F(Confinement, no_file_but_its_own_is_reached) {
  const std::string refused = confine::landlock_abi() > 0 ? "EACCES" : "succeeded";
  for (const Attack& attack : attacks_on_files(foreign_)) {
    EXPECT_EQ(under_confinement(attack), refused) << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

TEST_F(Confinement, it_connects_nowhere_and_takes_no_port) {
  for (const Attack& attack : confine::attacks_on_ports()) {
    EXPECT_EQ(under_confinement(attack), "SIGSYS") << attack.name;
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
  }
}

// Database, its thread, timers, signals and doors: what main does after it is confined.
long work(const std::string& folder) {
  auto repository = store::open_sqlite_repository(folder + "/control.db");
  if (!repository) return -EIO;
  boost::asio::io_context loop(1);
  boost::asio::signal_set signals(loop, SIGTERM);
  signals.async_wait([&](const boost::system::error_code&, int) { loop.stop(); });
  bool done = false;
  const auto life = [](store::Repository& rows, std::string path, bool& finished) -> Task<void> {
    const auto made = co_await bootstrap(rows, path, "http://127.0.0.1:1", system_clock().wall());
    co_await sleep_for(Millis(1));
    finished = made.has_value() && read_file(path + "/bootstrap.json", 4096);
    std::raise(SIGTERM);
  };
  spawn(loop.get_executor(), "life", life(**repository, folder, done));
  loop.run();
  repository->reset();
  return done ? 0 : -EIO;
}

TEST_F(Confinement, its_work_is_possible) {
  EXPECT_EQ(under_confinement({"work", {}, [&] { return work(own_.folder); }}), "succeeded");
}

}  // namespace
}  // namespace space::control
