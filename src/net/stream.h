// Stream: two directions of bytes. TCP and unix sockets, virtio-serial ports and HTTP/2 tunnels are all
// one of these, so that HTTP and the proxies do not care what carries them.
//
// One reader and one writer at a time; both may be under way together. All waits honour asio cancellation.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "net/task.h"

namespace space {

class Stream {
 public:
  virtual ~Stream() = default;  // closes; if not finished both ways, as reset()

  // At least one byte, or 0 at the end of the stream. An aborted stream is Code::unavailable.
  virtual Task<Result<std::size_t>> read(std::span<std::byte> into) = 0;
  // All of it; returns when the transport took it (back-pressure), not when the peer has it.
  virtual Task<Result<void>> write(std::span<const std::byte> bytes) = 0;
  // As write, and with the first byte goes a duplicate of `descriptor`, which stays the caller's. Unix
  // sockets and pairs only; invalid_argument elsewhere.
  virtual Task<Result<void>> write_with(std::span<const std::byte> bytes, int descriptor);
  // The oldest descriptor that came with what was read so far and was not taken; none: an empty Fd. Pairs
  // only: a socket of ours takes none in.
  virtual Fd take_descriptor() { return {}; }
  // No more writes; the peer reads the end of the stream. Reading goes on.
  virtual Task<Result<void>> finish() = 0;
  // Aborts both directions at once: TCP RST, RST_STREAM. A pending read or write of ours fails.
  virtual void reset() noexcept = 0;
  // A socket whose other end is on this machine's loopback.
  virtual bool peer_is_loopback() const { return false; }
};

using StreamPtr = std::unique_ptr<Stream>;

// A stream over an open non-blocking socket or character device; takes the fd.
StreamPtr make_stream(const Executor& executor, Fd fd);

Task<Result<StreamPtr>> connect_unix(std::string path, Deadline deadline);
Task<Result<StreamPtr>> connect_tcp(std::string host_address, std::uint16_t port, Deadline deadline);

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Task<Result<StreamPtr>> accept() = 0;
  virtual std::uint16_t port() const = 0;  // 0 for unix
  virtual void close() noexcept = 0;       // a pending accept fails with unavailable
};
// `path` is replaced if it exists; the socket file gets `mode`.
Result<std::unique_ptr<Listener>> listen_unix(const Executor& executor, const std::string& path,
                                              unsigned mode, int queue = 4096);
// port 0: any free one. `host_address` is a literal, e.g. "127.0.0.1".
Result<std::unique_ptr<Listener>> listen_tcp(const Executor& executor, const std::string& host_address,
                                             std::uint16_t port);

// Two ends of an in-process pipe with a bounded buffer. For tests and for serving HTTP on a tunnel's far end.
std::pair<StreamPtr, StreamPtr> make_stream_pair(const Executor& executor, std::size_t buffer_bytes = 65536);

// Copies both ways until both are done, passing half-closes on. If either side is reset, the other is
// reset too. Never buffers more than `buffer_bytes` a direction. Owns and ends both streams.
Task<void> splice(StreamPtr a, StreamPtr b, std::size_t buffer_bytes = 65536);

}  // namespace space
