// What a QEMU does about the state of its devices, asked of the fake and of the real one alike. For tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "vmm/qmp.h"

namespace space::vmm::contract {

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

inline Task<std::string> state_of(Qmp& qmp) {
  co_return (co_await qmp.query_status(soon())).value_or(VmStatus{}).state;
}

// How many descriptors QEMU was given and has not given back, once that is `expected` or for good.
inline Task<std::size_t> fd_sets(Qmp& qmp, std::size_t expected) {
  std::size_t count = 0;
  for (int tries = 0; tries < 200; ++tries) {
    const auto answer = co_await qmp.execute("query-fdsets", {}, soon());
    EXPECT_TRUE(answer) << answer.error().message;
    count = answer ? answer->as_array().size() : 0;
    if (!answer || count == expected) break;
    co_await sleep_for(Millis(5));
  }
  co_return count;
}

// A file as space-noded hands one out.
inline Fd state_file(std::string_view content) {
  const Fd file(::memfd_create("state", MFD_CLOEXEC));
  EXPECT_TRUE(write_all(file.get(), as_bytes(content)));
  return open_fd("/proc/self/fd/" + std::to_string(file.get()), O_RDONLY).value();
}

// A running VM is stopped, saved twice and goes on. Answers what was saved.
inline Task<std::string> saves_and_goes_on(Qmp& qmp) {
  const std::size_t before = co_await fd_sets(qmp, 0);
  EXPECT_TRUE(co_await qmp.stop(soon()));
  const auto first = co_await qmp.save_device_state(soon());
  EXPECT_TRUE(first) << first.error().message;
  const auto second = co_await qmp.save_device_state(soon());
  EXPECT_TRUE(second) << second.error().message;
  EXPECT_EQ(co_await fd_sets(qmp, before), before);
  EXPECT_EQ(co_await state_of(qmp), "paused");
  EXPECT_TRUE(co_await qmp.cont(soon()));
  EXPECT_EQ(co_await state_of(qmp), "running");
  if (!first || !second) co_return "";
  EXPECT_EQ(first->substr(0, 4), "QEVM");
  EXPECT_EQ(first->size(), second->size()) << "a file of its own each time";
  co_return *second;
}

// A VM that was booted takes no other's devices, and is none the worse.
inline Task<void> takes_no_state_when_booted(Qmp& qmp, std::string state) {
  const auto loaded = co_await qmp.load_device_state(state_file(state), soon());
  EXPECT_FALSE(loaded);
  EXPECT_EQ(co_await state_of(qmp), "running");
}

// One that waits for its devices gets them and runs.
inline Task<void> loads_and_runs(Qmp& qmp, std::string state) {
  EXPECT_EQ(co_await state_of(qmp), "inmigrate");
  const std::size_t before = co_await fd_sets(qmp, 0);
  const auto loaded = co_await qmp.load_device_state(state_file(state), soon());
  EXPECT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(co_await state_of(qmp), "paused");
  EXPECT_EQ(co_await fd_sets(qmp, before), before);
  EXPECT_TRUE(co_await qmp.cont(soon()));
  EXPECT_EQ(co_await state_of(qmp), "running");
}

// The reason is told, and the VM is of no use: it agrees to go on and does not.
inline Task<void> refuses_what_is_no_state(Qmp& qmp, std::string text) {
  const auto loaded = co_await qmp.load_device_state(state_file(text), soon());
  EXPECT_FALSE(loaded);
  if (loaded) co_return;
  EXPECT_EQ(loaded.error().code, Code::invalid_argument);
  EXPECT_NE(loaded.error().message.find("load of migration failed"), std::string::npos)
      << loaded.error().message;
  EXPECT_EQ(co_await state_of(qmp), "inmigrate");
  EXPECT_TRUE(co_await qmp.cont(soon()));
  EXPECT_EQ(co_await state_of(qmp), "inmigrate");
}

}  // namespace space::vmm::contract
