// The guest's end of the private channel: the virtio-serial port `space.0`.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>

#include "base/fd.h"
#include "net/stream.h"

namespace space::guest {

class ChannelPort {
 public:
  // Waits until the port is there and opens it. It stays open for good: bytes the host sends while nobody
  // reads wait in the host.
  static Task<Result<ChannelPort>> open(Deadline deadline);

  // Completes when a host is connected. While none is, the port reads as at its end and polls as hung up for
  // ever: the wait is for the next change, so that it costs nothing.
  Task<Result<void>> wait_for_host();
  // Another handle of the port, for one session.
  Result<StreamPtr> session_stream();

 private:
  ChannelPort(const Executor& executor, Fd port)
      : executor_(executor), port_(std::move(port)), changes_(executor) {}

  Executor executor_;
  Fd port_;
  boost::asio::posix::stream_descriptor changes_;  // an epoll set that holds the port, edge-triggered
};

}  // namespace space::guest
