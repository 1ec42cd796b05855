#include "priv/jail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace space::priv {
namespace {

using testing::HasSubstr;

Result<void> puts_on(const JailSpec&) {
  return {};
}
Result<void> is_missing(const JailSpec&) {
  return fail(Code::unavailable, "this kernel has none");
}
Result<void> fails(const JailSpec&) {
  return fail(Code::internal, "it broke");
}

// What the parent hears of a child that enters a jail of these layers and ends.
Result<Worn> enter(std::vector<JailLayer> layers, std::vector<std::string> may_miss) {
  int talk[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) != 0)
    return fail_errno(errno, "socketpair");
  Fd mine(talk[0]), childs(talk[1]);
  SPACE_TRY(const pid_t child, fork_into_jail(false));
  if (child == 0) {
    mine.reset();
    const JailRoot root;
    const JailSpec spec{.cgroups = nullptr,
                        .id = "",
                        .uid = 0,
                        .processes_max = 0,
                        .file_bytes_max = 0,
                        .root = &root,
                        .scratch = "",
                        .inherited_end = 1000,  // no such descriptor: the exec fails
                        .parent = childs.get()};
    const std::vector<std::string> words{"nothing"};
    (void)enter_jail_and_exec(spec, may_miss, words, layers);
    ::_exit(0);
  }
  childs.reset();
  auto worn = oversee_jail(mine.get(), child, 0);
  ::waitpid(child, nullptr, 0);
  return worn;
}

TEST(Jail, AKernelWithoutALayerIsRefusedWithTheReasonAndWhatToDo) {
  const auto refused = enter({{"one", puts_on, ""}, {"landlock", is_missing, "add it to lsm="}}, {"another"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  for (const char* part : {"'landlock'", "this kernel has none", "add it to lsm=", "allow it to be missing"})
    EXPECT_THAT(refused.error().message, HasSubstr(part));
}

TEST(Jail, ALayerThatMayBeMissingIsPassedOverAndTheNextIsPutOn) {
  const auto went_on = enter({{"landlock", is_missing, ""}, {"next", fails, ""}}, {"landlock"});
  ASSERT_FALSE(went_on);
  EXPECT_EQ(went_on.error().message, "next: it broke");
  const auto to_the_end = enter({{"landlock", is_missing, ""}, {"next", puts_on, ""}}, {"landlock"});
  ASSERT_FALSE(to_the_end);
  EXPECT_THAT(to_the_end.error().message, HasSubstr("exec")) << "nothing but the program was missing";
}

TEST(Jail, AFailureIsNotAMissingLayer) {
  const auto failed = enter({{"landlock", fails, ""}}, {"landlock"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::internal);
}

TEST(Jail, ItsLayersAreInTheOrderInWhichTheyCanBePutOn) {
  std::vector<std::string> names;
  for (const JailLayer& layer : jail_layers()) names.emplace_back(layer.name);
  EXPECT_THAT(names, testing::ElementsAre("descriptors", "cgroups", "rlimits", "namespaces", "root",
                                          "user namespace", "identity", "capabilities", "no_new_privs",
                                          "not dumpable", "landlock", "seccomp"));
}

}  // namespace
}  // namespace space::priv
