#include "priv/template.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

namespace space::priv {
namespace {

Fd unnamed_file() {
  auto fd = open_fd("/tmp", O_RDWR | O_TMPFILE, 0600);
  return fd ? *std::move(fd) : Fd();
}

TEST(CopySparse, CopiesDataAndLeavesHoles) {
  constexpr off_t size = 64 << 20;
  const Fd from = unnamed_file(), to = unnamed_file();
  ASSERT_EQ(::ftruncate(from.get(), size), 0);
  ASSERT_EQ(::pwrite(from.get(), "head", 4, 0), 4);
  ASSERT_EQ(::pwrite(from.get(), "middle", 6, (40 << 20) + 17), 6);
  ASSERT_TRUE(copy_sparse(from.get(), to.get()));

  struct stat status{};
  ASSERT_EQ(::fstat(to.get(), &status), 0);
  EXPECT_EQ(status.st_size, size);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
  char text[6];
  ASSERT_EQ(::pread(to.get(), text, 4, 0), 4);
  EXPECT_EQ(std::string_view(text, 4), "head");
  ASSERT_EQ(::pread(to.get(), text, 6, (40 << 20) + 17), 6);
  EXPECT_EQ(std::string_view(text, 6), "middle");
}

TEST(CopySparse, EmptyAndAllHole) {
  for (const off_t size : {off_t{0}, off_t{5 << 20}}) {
    const Fd from = unnamed_file(), to = unnamed_file();
    ASSERT_EQ(::ftruncate(from.get(), size), 0);
    ASSERT_TRUE(copy_sparse(from.get(), to.get()));
    EXPECT_EQ(::lseek(to.get(), 0, SEEK_END), size);
  }
}

TEST(CopySparse, AnUnwritableTargetIsAnError) {
  const Fd from = unnamed_file();
  ASSERT_TRUE(write_all(from.get(), as_bytes("data")));
  const auto target = open_fd("/dev/null", O_RDONLY);
  ASSERT_TRUE(target);
  EXPECT_FALSE(copy_sparse(from.get(), target->get()));
}

}  // namespace
}  // namespace space::priv
