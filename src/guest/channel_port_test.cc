#include "guest/channel_port.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "net/test_loop.h"

namespace space::guest {
namespace {

class ChannelPortTest : public LoopTest {
 protected:
  // How many epoll sets of this process hold `fd`'s file, under whatever descriptor.
  static int watchers(int fd) {
    struct stat status{};
    EXPECT_EQ(::fstat(fd, &status), 0);
    const std::string inode = fmt::format(" ino:{:x} ", status.st_ino);
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);)
        if (line.starts_with("tfd:") && (line + " ").contains(inode)) ++count;
    }
    return count;
  }
};

// Two watches of a virtio port take wake-ups from each other: a session stood still until the next byte came.
TEST_F(ChannelPortTest, OnlyTheSessionWatchesThePortWhileItRuns) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const Fd host(ends[0]);
  const int port_fd = ends[1];
  run([&]() -> Task<void> {
    ChannelPort port(executor(), Fd(port_fd));
    EXPECT_TRUE(co_await port.wait_for_host());
    EXPECT_EQ(watchers(port_fd), 0);
    {
      const auto stream = port.session_stream();
      EXPECT_TRUE(stream);
      EXPECT_EQ(watchers(port_fd), 1);
    }
    EXPECT_EQ(watchers(port_fd), 0);
  });
}

}  // namespace
}  // namespace space::guest
