#include "net/noded_link.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/unix_address.h"

namespace space {
namespace asio = boost::asio;

namespace {

constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t fds_per_message = 4;

}  // namespace

std::shared_ptr<NodedLink> NodedLink::connect(const Executor& executor, const std::string& path) {
  const auto address = UnixAddress::of(path);
  if (!address) {
    errno = ENAMETOOLONG;
    return nullptr;
  }
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return nullptr;
  if (::connect(fd.get(), address->get(), address->size()) != 0) return nullptr;
  std::shared_ptr<NodedLink> link(new NodedLink(executor, std::move(fd)));
  spawn(executor, "noded answers", link->read_answers());
  return link;
}

NodedLink::NodedLink(const Executor& executor, Fd fd) : socket_(executor, fd.release()) {}

void NodedLink::close() {
  broken_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (auto& [sequence, pending] : std::exchange(pending_, {})) pending->answered.notify_all();
}

Task<Result<std::optional<NodedLink::Received>>> NodedLink::exchange(noded::Request request,
                                                                     std::vector<int> fds,
                                                                     Deadline deadline) {
  const auto self = shared_from_this();
  const auto pending = std::make_shared<Pending>(socket_.get_executor());
  pending_[request.sequence] = pending;
  if (!co_await send(request, std::move(fds))) {
    close();
    co_return std::nullopt;
  }
  while (!pending->received && !broken_) {
    if (co_await pending->answered.wait(deadline)) continue;
    pending_.erase(request.sequence);
    co_return fail(Code::deadline, "the node manager did not answer in time");
  }
  co_return std::move(pending->received);
}

Task<bool> NodedLink::send(noded::Request request, std::vector<int> fds) {
  iovec data{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * fds_per_message)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  while (!broken_) {
    if (::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) co_return true;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) break;
    co_await socket_.async_wait(asio::posix::stream_descriptor::wait_write, as_tuple);
  }
  co_return false;
}

Task<void> NodedLink::read_answers() {
  const auto self = shared_from_this();
  while (!broken_) {
    auto [error] = co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read, as_tuple);
    if (broken_) break;
    if (error || !read_ready()) close();
  }
}

bool NodedLink::read_ready() {
  while (true) {
    Received received;
    iovec data{&received.reply, sizeof received.reply};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * fds_per_message)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        received.fds.emplace_back(fd);
      }
    }
    if (size == 0) return false;
    if (size != sizeof received.reply || (message.msg_flags & MSG_TRUNC) ||
        received.reply.protocol != noded::protocol) {
      log::error("the node manager speaks another protocol", {{"bytes", size}});
      return false;
    }
    deliver(std::move(received));
  }
}

void NodedLink::deliver(Received received) {
  const auto found = pending_.find(received.reply.sequence);
  if (found == pending_.end()) return;  // its caller has given up; its descriptors are closed here
  const auto pending = found->second;
  pending_.erase(found);
  pending->received = std::move(received);
  pending->answered.notify_all();
}

}  // namespace space
