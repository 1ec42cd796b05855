#include "noded/seqpacket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unix_address.h"

namespace space::noded {
namespace {

constexpr int backlog = 16;

void take_descriptors(const msghdr& message, Datagram& out) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      out.descriptors.emplace_back(fd);
    }
  }
}

}  // namespace

Result<Fd> listen_seqpacket(const std::string& path, gid_t gid, mode_t mode) {
  SPACE_TRY(const UnixAddress address, UnixAddress::of(path));
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(errno, "open a socket");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove " + path);
  const mode_t before = ::umask(0777);  // nobody comes in before owner and mode are right
  const int bound = ::bind(listener.get(), address.get(), address.size());
  const int error = errno;
  ::umask(before);
  if (bound != 0) return fail_errno(error, "bind " + path);
  if (::listen(listener.get(), backlog) != 0) return fail_errno(errno, "listen on " + path);
  if (::chown(path.c_str(), 0, gid) != 0 || ::chmod(path.c_str(), mode) != 0)
    return fail_errno(errno, "set the mode of " + path);
  return listener;
}

Result<std::optional<Fd>> accept_connection(int listener) {
  Fd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection) return connection;
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return std::nullopt;
  return fail_errno(errno, "accept");
}

Result<uid_t> peer_uid(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail_errno(errno, "read the peer's uid");
  return peer.uid;
}

Result<std::optional<Datagram>> receive(int connection, std::size_t bytes_max) {
  Datagram out;
  out.bytes.resize(bytes_max);
  iovec bytes{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got < 0) return fail_errno(errno, "receive");
  take_descriptors(message, out);
  // An empty datagram looks the same as the end; no client of ours sends one.
  if (got == 0) return fail(Code::unavailable, "the connection ended");
  out.bytes.resize(static_cast<std::size_t>(got));
  out.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  return out;
}

Result<void> send(int connection, std::span<const std::byte> bytes, std::span<const Fd> descriptors) {
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int))] = {};
  if (descriptors.size() > descriptors_max) return fail(Code::internal, "too many descriptors");
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  if (::sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
  if (errno == EAGAIN) return fail(Code::exhausted, "the client does not read its answers");
  return fail_errno(errno, "send");
}

}  // namespace space::noded
