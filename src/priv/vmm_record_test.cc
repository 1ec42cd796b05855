#include "priv/vmm_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace space::priv {
namespace {

const std::string id = "i0123456789abcdefghi";

class VmmRecord : public testing::Test {
 protected:
  VmmRecord() {
    char name[] = "/tmp/space-record-XXXXXX";
    layout_.run = ::mkdtemp(name);
    ::mkdir(layout_.home().c_str(), 0700);
    ::mkdir(layout_.vmms().c_str(), 0700);
  }
  ~VmmRecord() override { std::filesystem::remove_all(layout_.run); }

  VmmState state() { return vmm_status(layout_, id).state; }
  // A process that has been and gone.
  static ProcessId ended_process() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    const ProcessId process = *process_id(pid);
    ::waitpid(pid, nullptr, 0);
    return process;
  }

  Layout layout_;
};

TEST_F(VmmRecord, WholeLifeWithItsSupervisor) {
  EXPECT_EQ(state(), VmmState::none);
  auto lock = begin_vmm_record(layout_, id);
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_EQ(state(), VmmState::launching);
  ASSERT_TRUE(record_vmm_process(layout_, id, *process_id(::getpid())));
  EXPECT_EQ(state(), VmmState::running);
  EXPECT_EQ(vmm_status(layout_, id).process, *process_id(::getpid()));
  ASSERT_TRUE(record_vmm_process(layout_, id, ended_process()));
  EXPECT_EQ(state(), VmmState::ending);
  const VmmExit exit{.known = true, .signal = 9, .out_of_memory = true};
  ASSERT_TRUE(record_vmm_exit(layout_, id, exit));
  EXPECT_EQ(state(), VmmState::exited);
  EXPECT_EQ(vmm_status(layout_, id).exit, exit);
  ASSERT_TRUE(remove_vmm_record(layout_, id));
  ASSERT_TRUE(remove_vmm_record(layout_, id));
  EXPECT_EQ(state(), VmmState::none);
}

TEST_F(VmmRecord, WithoutItsSupervisorARunningVmmRunsAndAnEndedOneEndedUnknown) {
  ASSERT_TRUE(begin_vmm_record(layout_, id));  // the lock is let go at once
  EXPECT_EQ(state(), VmmState::exited);
  ASSERT_TRUE(record_vmm_process(layout_, id, *process_id(::getpid())));
  EXPECT_EQ(state(), VmmState::running);
  ASSERT_TRUE(record_vmm_process(layout_, id, ended_process()));
  EXPECT_EQ(state(), VmmState::exited);
  EXPECT_FALSE(vmm_status(layout_, id).exit.known);
}

TEST_F(VmmRecord, OneSupervisorOnly) {
  const auto lock = begin_vmm_record(layout_, id);
  ASSERT_TRUE(lock);
  EXPECT_EQ(begin_vmm_record(layout_, id).error().code, Code::conflict);
}

TEST(VmmRecordText, RoundTrip) {
  const ProcessId process{4711, 18446744073709551615ULL};
  EXPECT_EQ(*parse_process_id(to_text(process)), process);
  const VmmExit exit{.known = true, .signal = 0, .status = 255, .out_of_memory = false};
  EXPECT_EQ(*parse_vmm_exit(to_text(exit)), exit);
}

TEST(VmmRecordText, RefusesWhatIsCutOff) {
  for (const auto* text : {"", "12", "12 ", "12 5", "0 5\n", "-1 5\n", "12 5\nmore", "x 5\n"})
    EXPECT_FALSE(parse_process_id(text)) << text;
  for (const auto* text :
       {"", "known 1", "known 1 signal 9 status 0 oom 0", "known 1 signal 9 status 0 oom 0\nmore"})
    EXPECT_FALSE(parse_vmm_exit(text)) << text;
}

}  // namespace
}  // namespace space::priv
