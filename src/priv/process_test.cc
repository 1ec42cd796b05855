#include "priv/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace space::priv {
namespace {

TEST(ProcessStat, TheNameMayHoldAnything) {
  const std::string tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n";
  for (const auto* name : {"(a)", "(a b)", "(a) R 9 9 (b)", "()"}) {
    const auto stat = parse_process_stat(std::string("12 ") + name + tail);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->state, 'S');
    EXPECT_EQ(stat->start_ticks, 4711U);
  }
}

TEST(ProcessStat, RefusesWhatIsCutOff) {
  for (const auto* text : {"", "12 (a", "12 (a)", "12 (a) S", "12 (a) S 1 2 3", ")"})
    EXPECT_FALSE(parse_process_stat(text)) << text;
}

TEST(Process, ThisOneIsAliveUnderItsOwnStartTimeOnly) {
  const auto self = process_id(::getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(is_alive(*self));
  EXPECT_TRUE(open_pidfd(*self));
  const ProcessId earlier{self->pid, self->start_ticks - 1};
  EXPECT_FALSE(is_alive(earlier));
  EXPECT_EQ(open_pidfd(earlier).error().code, Code::not_found);
}

TEST(Process, AZombieIsNotAlive) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto zombie = process_id(pid);
  ASSERT_TRUE(zombie);
  EXPECT_FALSE(is_alive(*zombie));
  ::waitpid(pid, nullptr, 0);
  EXPECT_FALSE(process_id(pid));
}

TEST(Process, SeesTheUidsOfProcesses) {
  EXPECT_TRUE(uid_has_process(::geteuid()));
  EXPECT_FALSE(uid_has_process(4'000'000'000U));
}

TEST(Process, ClosesAllButTheKept) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    close_all_except({ends[1], 1});
    const bool right =
        ::fcntl(ends[0], F_GETFD) < 0 && ::fcntl(ends[1], F_GETFD) >= 0 && ::fcntl(2, F_GETFD) >= 0;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Process, AProgramThatFailsIsAnError) {
  EXPECT_TRUE(run_program({"/bin/true"}));
  EXPECT_FALSE(run_program({"/bin/false"}));
  EXPECT_FALSE(run_program({"/nowhere/program"}));
}

}  // namespace
}  // namespace space::priv
