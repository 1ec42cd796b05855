#include "confine/daemon.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/fd.h"
#include "confine/attacks.h"

namespace space::confine {
namespace {

const std::string refused_file = landlock_abi() > 0 ? "EACCES" : "succeeded";

std::vector<Attack> all_attacks(const Targets& targets) {
  auto all = attacks_by_system_call(targets);
  for (auto& more : {attacks_on_files(targets), attacks_on_ports()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Attacks, succeed_in_a_process_that_is_not_confined) {
  const Targets targets;
  for (const Attack& attack : all_attacks(targets))
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
}

TEST(Daemon, is_killed_for_every_system_call_it_has_no_business_with) {
  const Targets targets;
  for (const Attack& attack : attacks_by_system_call(targets)) {
    const bool falls_back = attack.name == "clone a process, version 3";
    EXPECT_EQ(outcome_of(attack, [] { return confine_daemon({}); }), falls_back ? "ENOSYS" : "SIGSYS")
        << attack.name;
  }
}

TEST(Daemon, sees_no_file_outside_its_view) {
  const Targets targets;
  const auto confine = [] {
    return confine_daemon({.files = {{"/proc", Reach::read}}, .calls = {}, .calls_when = {}});
  };
  for (const Attack& attack : attacks_on_files(targets))
    EXPECT_EQ(outcome_of(attack, confine), refused_file) << attack.name;
}

TEST(Daemon, reads_and_writes_inside_its_view) {
  const Targets targets;
  const auto confine = [&] {
    return confine_daemon({.files = {{targets.folder, Reach::write}}, .calls = {}, .calls_when = {}});
  };
  const Attack write{
      "", {}, [&] { return write_file_durably(targets.folder + "/own", "1", 0600) ? 0 : -EIO; }};
  const Attack read{"", {}, [&] { return read_file(targets.folder + "/own", 10) == "1" ? 0 : -EIO; }};
  EXPECT_EQ(outcome_of(write, confine), "succeeded");
  EXPECT_EQ(outcome_of(read, confine), "succeeded");
}

TEST(Daemon, has_no_capability_and_no_new_privileges) {
  const Attack look{"", {}, [] {
                      const auto status = read_file("/proc/self/status", 1 << 16);
                      if (!status) return -EIO;
                      const bool confined = status->contains("NoNewPrivs:\t1\n") &&
                                            status->contains("Seccomp:\t2\n") &&
                                            status->contains("CapEff:\t0000000000000000\n") &&
                                            status->contains("CapPrm:\t0000000000000000\n");
                      return confined ? 0 : -EPERM;
                    }};
  const auto confine = [] {
    return confine_daemon({.files = {{"/proc", Reach::read}}, .calls = {}, .calls_when = {}});
  };
  EXPECT_EQ(outcome_of(look, confine), "succeeded");
  EXPECT_EQ(outcome_of(look, {}), "EPERM");
}

TEST(Daemon, starts_threads_waits_and_aborts) {
  const auto confine = [] { return confine_daemon({}); };
  const Attack work{"", {}, [] {
                      int done = 0;
                      std::thread([&] { done = 1; }).join();
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                      return done == 1 ? 0 : -EIO;
                    }};
  EXPECT_EQ(outcome_of(work, confine), "succeeded");
  EXPECT_EQ(outcome_of({"", {}, []() -> long { std::abort(); }}, confine), "SIGABRT");
}

TEST(Daemon, calls_of_a_profile_are_allowed_with_the_argument_named_and_no_other) {
  const auto confine = [] {
    return confine_daemon(
        {.files = {}, .calls = {SYS_umask}, .calls_when = {{SYS_alarm, {0, 0xffffffff, 0}}}});
  };
  EXPECT_EQ(outcome_of({"", {}, [] { return ::syscall(SYS_umask, 077); }}, confine), "succeeded");
  EXPECT_EQ(outcome_of({"", {}, [] { return ::syscall(SYS_alarm, 0); }}, confine), "succeeded");
  EXPECT_EQ(outcome_of({"", {}, [] { return ::syscall(SYS_alarm, 100); }}, confine), "SIGSYS");
}

TEST(Daemon, is_not_confined_once_it_has_threads) {
  const auto confine_beside_a_thread = [] {
    std::jthread other([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const auto confined = confine_daemon({});
    return !confined && confined.error().code == Code::conflict ? 0L : -EIO;
  };
  EXPECT_EQ(outcome_of({"", {}, confine_beside_a_thread}, {}), "succeeded");
}

TEST(Daemon, is_not_confined_with_a_view_of_what_is_not_there) {
  if (landlock_abi() == 0) return;
  const auto confine = [] {
    return confine_daemon({.files = {{"/nonexistent", Reach::read}}, .calls = {}, .calls_when = {}});
  };
  EXPECT_EQ(outcome_of({"", {}, [] { return 0L; }}, confine), "not confined");
}

}  // namespace
}  // namespace space::confine
