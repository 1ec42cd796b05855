// FlowSocket: one TCP connection of a flow. Read and written by system calls of its user, which waits here
// when they would block: an idle connection holds no buffer. May be closed under a waiting coroutine, whose
// wait then ends and whose calls fail. Belongs to one loop; use it through a shared pointer.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>

#include "net/stream.h"

namespace space::netd {

class FlowSocket {
 public:
  FlowSocket(const Executor& executor, Fd connected) : descriptor_(executor, connected.release()) {}

  bool open() const { return descriptor_.is_open(); }
  int fd() { return open() ? descriptor_.native_handle() : -1; }

  // Each ends when the socket is closed, too.
  Task<void> readable();
  Task<void> writable();
  Task<void> broken();  // an error or the end of both directions
  bool failed();        // an error is pending; takes it

  void finish() noexcept;  // FIN; reading goes on
  void reset() noexcept;   // RST, and closed
  void close() noexcept;   // FIN if that was not sent

 private:
  Task<void> wait(boost::asio::posix::stream_descriptor::wait_type what);

  boost::asio::posix::stream_descriptor descriptor_;
};

using FlowSocketPtr = std::shared_ptr<FlowSocket>;

// The same connection as a Stream, for HTTP; both may be used. Destroyed unfinished it resets.
StreamPtr stream_of(FlowSocketPtr socket);

// No RST follows from bytes that were not read: sends `last`, ends, and takes what still comes for a moment,
// so that the guest reads the answer.
Task<void> say_goodbye(FlowSocketPtr socket, std::string last);

void reset_connection(Fd connected) noexcept;

}  // namespace space::netd
