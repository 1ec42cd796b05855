// PeerListener: a unix socket that lets one user in. Connections of any other uid are closed unread.
#pragma once

#include <sys/types.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <string>

#include "net/stream.h"

namespace space::control {

class PeerListener {
 public:
  // `path` is replaced if it exists; mode 0660, the group is the folder's (setgid).
  static Result<PeerListener> open(const Executor& executor, const std::string& path, uid_t peer_uid);

  // The next connection of the right uid.
  Task<Result<StreamPtr>> accept();

 private:
  PeerListener(boost::asio::local::stream_protocol::acceptor acceptor, uid_t peer_uid)
      : acceptor_(std::move(acceptor)), peer_uid_(peer_uid) {}
  boost::asio::local::stream_protocol::acceptor acceptor_;
  uid_t peer_uid_;
};

}  // namespace space::control
