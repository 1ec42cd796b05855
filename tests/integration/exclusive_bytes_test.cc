// What files and snapshots alone hold, on a real pool: counted, and given back.
#include "vmm/exclusive_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::uint64_t exclusive(const Fd& file) {
  const auto bytes = vmm::exclusive_bytes(file.get(), Deadline::after(std::chrono::seconds(20)));
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes.value_or(~std::uint64_t{0});
}

// Random, so that nothing can be stored smaller than it is.
void fill(const Fd& file, std::uint64_t at, std::uint64_t size) {
  for (const std::uint64_t end = at + size; at < end; at += mib) {
    const auto bytes = random_bytes(std::min(mib, end - at));
    ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  ASSERT_EQ(::fsync(file.get()), 0);
}

class ExclusiveBytes : public NodedTest {
 protected:
  ExclusiveBytes() {
    ::chmod(root_.c_str(), 0755);
    start_noded();
  }
  Fd file(const std::string& name) const {
    return open_fd(state_ + "/pool/" + name, O_RDWR | O_CREAT, 0600).value();
  }
  // The kernel's cleaner goes by itself; this wakes it.
  std::uint64_t free_bytes() const {
    EXPECT_EQ(std::system(("btrfs filesystem sync " + state_ + "/pool >/dev/null").c_str()), 0);
    return client().call(Verb::pool_info).values[0];
  }
};

TEST_F(ExclusiveBytes, WhatIsSharedIsNotCountedUntilItIsOverwritten) {
  const Fd first = file("first"), copy = file("copy");
  EXPECT_EQ(exclusive(first), 0U) << "empty";
  fill(first, 0, 8 * mib);
  EXPECT_EQ(exclusive(first), 8 * mib);
  ASSERT_EQ(::ioctl(copy.get(), FICLONE, first.get()), 0);
  ASSERT_EQ(::fsync(copy.get()), 0);
  EXPECT_EQ(exclusive(first), 0U);
  EXPECT_EQ(exclusive(copy), 0U);
  fill(copy, 2 * mib, 3 * mib);
  EXPECT_EQ(exclusive(copy), 3 * mib);
  ASSERT_EQ(::unlink((state_ + "/pool/first").c_str()), 0);
}

TEST_F(ExclusiveBytes, AFileOfManyPiecesIsCountedToItsEnd) {
  constexpr std::uint64_t pieces = 3000;
  const Fd many = file("many");
  const std::string page(4096, 'p');
  for (std::uint64_t i = 0; i < pieces; ++i)
    ASSERT_EQ(::pwrite(many.get(), page.data(), page.size(), static_cast<off_t>(i * 3 * page.size())), 4096);
  ASSERT_EQ(::fsync(many.get()), 0);
  EXPECT_EQ(exclusive(many), pieces * page.size());
  EXPECT_EQ(vmm::exclusive_bytes(many.get(), Deadline::after(Millis(0))).error().code, Code::deadline);
}

TEST_F(ExclusiveBytes, AFileSystemThatDoesNotSayIsToldApart) {
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(vmm::exclusive_bytes(memory.get(), Deadline::after(Millis(1000))).error().code,
            Code::unavailable);
}

// What a quota counts and retention wins back, by a descriptor alone.
TEST_F(ExclusiveBytes, ASnapshotGivesBackWhatItAloneHolds) {
  constexpr std::uint64_t size = 64 * mib;
  const std::string digest = make_image();
  ASSERT_TRUE(import(digest).done());
  const std::string id = make_sandbox(digest);
  const Fd disk = open_fd(state_ + "/pool/sandboxes/" + id + "/disk.raw", O_RDWR).value();
  fill(disk, 0, size);
  ASSERT_TRUE(client().call(Verb::snapshot_begin, id, "", {1, 0, 1}).done());
  ASSERT_TRUE(client().call(Verb::snapshot_finish, id, "", {1, 0}).done());
  Got opened = client().call(Verb::snapshot_open, id, "", {1});
  ASSERT_TRUE(opened.done()) << opened.message;
  ASSERT_EQ(opened.more.size(), 1U);
  EXPECT_EQ(exclusive(opened.more[0]), 0U) << "the sandbox has it all";
  fill(disk, 0, size);
  EXPECT_EQ(exclusive(opened.more[0]), size);

  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool dropped = ::setresgid(54321, 54321, 54321) == 0 && ::setresuid(54321, 54321, 54321) == 0;
    const auto bytes = vmm::exclusive_bytes(opened.more[0].get(), Deadline::after(Millis(20'000)));
    ::_exit(dropped && bytes && *bytes == size ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << "it needs no power";

  opened = {};  // whoever has one of its files open keeps all of it
  const std::uint64_t full = free_bytes();
  ASSERT_TRUE(client().call(Verb::snapshot_remove, id, "", {1}).done());
  EXPECT_TRUE(await([&] { return free_bytes() >= full + size * 9 / 10; }))
      << size << " bytes were counted, " << free_bytes() - full << " came back";
}

}  // namespace
}  // namespace space::noded
