#include "control/peer_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "base/log.h"

namespace space::control {

namespace asio = boost::asio;
using asio::local::stream_protocol;

Result<PeerListener> PeerListener::open(const Executor& executor, const std::string& path, uid_t peer_uid) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return fail(Code::invalid_argument, "socket path is too long: {}", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "replace " + path);
  stream_protocol::acceptor acceptor(executor);
  boost::system::error_code error;
  acceptor.open(stream_protocol(), error);
  if (!error) acceptor.bind(stream_protocol::endpoint(path), error);
  if (error) return fail_errno(error.value(), "bind " + path);
  // Nobody can connect before listen, so the mode is in place in time.
  if (::chmod(path.c_str(), 0660) != 0) return fail_errno(errno, "chmod " + path);
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail_errno(error.value(), "listen on " + path);
  return PeerListener(std::move(acceptor), peer_uid);
}

Task<Result<StreamPtr>> PeerListener::accept() {
  while (true) {
    auto [error, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
    if (error) co_return fail_errno(error.value(), "accept");
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
      co_return fail_errno(errno, "peer credentials");
    if (peer.uid != peer_uid_) {
      log::warn("connection of another user refused", {{"uid", peer.uid}, {"expected", peer_uid_}});
      continue;
    }
    socket.native_non_blocking(true, error);
    if (error) co_return fail_errno(error.value(), "accept");
    Fd fd(socket.release(error));
    if (error) co_return fail_errno(error.value(), "accept");
    co_return make_stream(acceptor_.get_executor(), std::move(fd));
  }
}

}  // namespace space::control
