#include "guest/channel_port.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

namespace space::guest {

namespace {

constexpr const char* ports_folder = "/sys/class/virtio-ports";
constexpr std::string_view port_name = "space.0";
constexpr Millis poll_interval{20};

// "/dev/vport0p1", or empty while the port is not there.
std::string find_port() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(ports_folder), ::closedir);
  if (!folder) return {};
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto name = read_file(fmt::format("{}/{}/name", ports_folder, entry->d_name), 4096);
    if (name && name->starts_with(port_name) &&
        (name->size() == port_name.size() || (*name)[port_name.size()] == '\n'))
      return fmt::format("/dev/{}", entry->d_name);
  }
  return {};
}

}  // namespace

Task<Result<ChannelPort>> ChannelPort::open(Deadline deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  std::string path = find_port();
  for (; path.empty(); path = find_port()) {
    if (deadline.passed())
      co_return fail(Code::deadline, "this machine has no virtio port named {}", port_name);
    co_await sleep_for(poll_interval);
  }
  SPACE_CO_TRY(Fd fd, open_fd(path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  co_return ChannelPort(executor, std::move(fd));
}

Task<Result<void>> ChannelPort::wait_for_host() {
  // An edge-triggered watch that ends with this wait. Beside a session it would make that one hang: to look
  // whether the port is readable takes the input off its queue, and the interrupt that follows finds the
  // queue empty and wakes nobody.
  Fd watch(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {}};
  if (!watch || ::epoll_ctl(watch.get(), EPOLL_CTL_ADD, port_.get(), &event) != 0)
    co_return fail_errno(errno, "watch the channel's port");
  boost::asio::posix::stream_descriptor changes(executor_, watch.release());
  for (;;) {
    (void)::epoll_wait(changes.native_handle(), &event, 1, 0);  // what changed until now is seen below
    pollfd state{.fd = port_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&state, 1, 0) >= 0 && (state.revents & POLLHUP) == 0) co_return Result<void>();
    boost::system::error_code error;
    co_await changes.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) co_return fail(Code::internal, "wait for the channel's host: {}", error.message());
  }
}

Result<StreamPtr> ChannelPort::session_stream() {
  Fd handle(::fcntl(port_.get(), F_DUPFD_CLOEXEC, 3));
  if (!handle) return fail_errno(errno, "take a handle of the channel's port");
  return make_stream(executor_, std::move(handle));
}

}  // namespace space::guest
