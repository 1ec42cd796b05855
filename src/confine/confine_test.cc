// The two tools by themselves; each refusal beside the same call without them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/fd.h"
#include "confine/attacks.h"
#include "confine/landlock.h"
#include "confine/seccomp.h"

namespace space::confine {
namespace {

Result<void> no_new_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno(errno, "no_new_privs");
  return {};
}

// A filter of the calls that reporting an outcome takes and what `rules` adds.
template <class Rules>
auto filter_of(Otherwise otherwise, Rules rules) {
  return [=]() -> Result<void> {
    SPACE_CHECK(no_new_privileges());
    SPACE_TRY(SyscallFilter filter, SyscallFilter::make(otherwise));
    SPACE_CHECK(filter.allow(std::array<int, 2>{SYS_write, SYS_exit_group}));
    SPACE_CHECK(rules(filter));
    return filter.load();
  };
}

const auto no_rules = [](SyscallFilter&) { return Result<void>(); };

Attack call(long number, long argument = 0) {
  return {"", {}, [=] {
            const long result = ::syscall(number, argument);
            return result < 0 ? -errno : result;
          }};
}

TEST(Seccomp, a_call_on_no_list_kills_or_is_refused) {
  EXPECT_EQ(outcome_of(call(SYS_getppid), filter_of(Otherwise::kill, no_rules)), "SIGSYS");
  EXPECT_EQ(outcome_of(call(SYS_getppid), filter_of(Otherwise::refuse, no_rules)), "EPERM");
  EXPECT_EQ(outcome_of(call(SYS_getppid), {}), "succeeded");
}

TEST(Seccomp, a_call_on_the_list_works) {
  const auto rules = [](SyscallFilter& filter) { return filter.allow(std::array<int, 1>{SYS_getppid}); };
  EXPECT_EQ(outcome_of(call(SYS_getppid), filter_of(Otherwise::kill, rules)), "succeeded");
}

TEST(Seccomp, an_argument_decides_and_its_upper_half_is_masked_out) {
  const auto rules = [](SyscallFilter& filter) { return filter.allow(SYS_umask, {{0, 0xffffffff, 022}}); };
  const auto confine = filter_of(Otherwise::kill, rules);
  EXPECT_EQ(outcome_of(call(SYS_umask, 022), confine), "succeeded");
  EXPECT_EQ(outcome_of(call(SYS_umask, 022 | (1L << 40)), confine), "succeeded");
  EXPECT_EQ(outcome_of(call(SYS_umask, 077), confine), "SIGSYS");
  EXPECT_EQ(outcome_of(call(SYS_umask, 077), {}), "succeeded");
}

TEST(Seccomp, a_refusal_has_the_error_it_was_given) {
  const auto rules = [](SyscallFilter& filter) -> Result<void> {
    SPACE_CHECK(filter.refuse(std::array<int, 1>{SYS_getppid}, ENOSYS));
    return filter.refuse(SYS_umask, EACCES, {{0, 0xffffffff, 077}});
  };
  const auto confine = filter_of(Otherwise::kill, rules);
  EXPECT_EQ(outcome_of(call(SYS_getppid), confine), "ENOSYS");
  EXPECT_EQ(outcome_of(call(SYS_umask, 077), confine), "EACCES");
  EXPECT_EQ(outcome_of(call(SYS_umask, 022), confine), "SIGSYS");
}

// getpid by its number among x32's calls and, through the old gate, among i386's: allowed as neither.
Attack x32_call() {
  constexpr long x32 = 0x40000000;
  return {"", {}, [] {
            ::syscall(x32 | SYS_getpid);  // ENOSYS in most kernels
            return 0L;
          }};
}
Attack i386_call() {
  return {"", {}, [] {
            long result = 20;  // its getpid
            asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
            return 0L;
          }};
}

TEST(Seccomp, calls_of_other_architectures_kill_even_where_a_filter_only_refuses) {
  const auto rules = [](SyscallFilter& filter) { return filter.allow(std::array<int, 1>{SYS_getpid}); };
  for (const auto otherwise : {Otherwise::kill, Otherwise::refuse}) {
    EXPECT_EQ(outcome_of(x32_call(), filter_of(otherwise, rules)), "SIGSYS");
    EXPECT_EQ(outcome_of(call(SYS_getpid), filter_of(otherwise, rules)), "succeeded");
  }
  EXPECT_EQ(outcome_of(x32_call(), {}), "succeeded");
  // A kernel without the old gate ends the process itself.
  const std::string without_filter = outcome_of(i386_call(), {});
  EXPECT_EQ(outcome_of(i386_call(), filter_of(Otherwise::refuse, rules)),
            without_filter == "succeeded" ? "SIGSYS" : without_filter);
}

class Landlock : public testing::Test {
 protected:
  void SetUp() override { ASSERT_GT(landlock_abi(), 0) << "this kernel has no Landlock"; }
  std::function<Result<void>()> limited_to(std::vector<LandlockRule> rules, bool forbid_tcp = true) {
    return [=]() -> Result<void> {
      SPACE_CHECK(no_new_privileges());
      return restrict_by_landlock({.rules = rules, .forbid_tcp = forbid_tcp});
    };
  }
  std::string reading(const std::function<Result<void>()>& confine) {
    return outcome_of({"", {}, [&] { return read_file(targets_.secret, 10) ? 0 : -errno; }}, confine);
  }
  std::string writing(const std::function<Result<void>()>& confine) {
    return outcome_of({"", {}, [&] { return open_fd(targets_.secret, O_WRONLY) ? 0 : -errno; }}, confine);
  }
  Targets targets_;
};

TEST_F(Landlock, nothing_is_reached_without_a_rule) {
  for (const Attack& attack : attacks_on_files(targets_))
    EXPECT_EQ(outcome_of(attack, limited_to({})), "EACCES") << attack.name;
  for (const Attack& attack : attacks_on_files(targets_))
    EXPECT_EQ(outcome_of(attack, {}), "succeeded") << attack.name;
}

TEST_F(Landlock, a_rule_grants_what_it_says_and_no_more) {
  const auto to_read = limited_to({{targets_.folder, Reach::read}});
  EXPECT_EQ(reading(to_read), "succeeded");
  EXPECT_EQ(writing(to_read), "EACCES");
  const auto to_write = limited_to({{targets_.secret, Reach::write}});
  EXPECT_EQ(reading(to_write), "succeeded");
  EXPECT_EQ(writing(to_write), "succeeded");
  EXPECT_EQ(reading(limited_to({{targets_.folder + "/victim", Reach::write}})), "EACCES");
}

TEST_F(Landlock, a_rule_for_what_is_not_there_is_an_error) {
  EXPECT_EQ(reading(limited_to({{targets_.folder + "/missing", Reach::read}})), "not confined");
}

TEST_F(Landlock, only_an_execute_rule_lets_a_program_run) {
  const auto run = attacks_by_system_call(targets_).front();
  ASSERT_EQ(run.name, "execute a program");
  EXPECT_EQ(outcome_of(run, limited_to({{"/", Reach::write}})), "EACCES");
  EXPECT_EQ(outcome_of(run, limited_to({{"/", Reach::execute}})), "succeeded");
}

TEST_F(Landlock, ports_are_refused_where_the_kernel_can) {
  const std::string expected = landlock_abi() >= 4 ? "EACCES" : "succeeded";
  for (const Attack& attack : attacks_on_ports()) {
    EXPECT_EQ(outcome_of(attack, limited_to({})), expected) << attack.name;
    EXPECT_EQ(outcome_of(attack, limited_to({}, false)), "succeeded") << attack.name;
  }
}

}  // namespace
}  // namespace space::confine
