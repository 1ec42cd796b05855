// The guest's end of the private channel: the virtio-serial port `space.0`.
#pragma once

#include "base/fd.h"
#include "net/stream.h"

namespace space::guest {

class ChannelPort {
 public:
  // Waits until the port is there and opens it. It stays open for good: bytes the host sends while nobody
  // reads wait in the host.
  static Task<Result<ChannelPort>> open(Deadline deadline);
  ChannelPort(const Executor& executor, Fd port) : executor_(executor), port_(std::move(port)) {}

  // Completes when a host is connected. While none is, the port reads as at its end and polls as hung up for
  // ever: the wait is for the next change, so that it costs nothing. Not beside a session's stream.
  Task<Result<void>> wait_for_host();
  // Another handle of the port, for one session. Nobody else may poll the port while it is in use.
  Result<StreamPtr> session_stream();

 private:
  Executor executor_;
  Fd port_;
};

}  // namespace space::guest
