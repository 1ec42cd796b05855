// Exchange: what one HTTP/2 stream holds on this side, shared by the session (while nghttp2 knows the stream)
// and by whoever uses it (a call, a tunnel's Stream). Outlives both. Private to h2_*.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/byte_queue.h"
#include "net/http.h"

namespace space {

class H2Engine;

// Wakes coroutines of one loop. Waiters look at their condition again: a wake-up says only that something
// changed.
class Signal {
 public:
  enum class Wake : unsigned char { notified, timed_out, cancelled };

  Task<Wake> wait(Deadline deadline);
  void notify();
  bool awaited() const { return !waiters_.empty(); }

 private:
  class Waiter;
  std::vector<boost::asio::steady_timer*> waiters_;
};

inline Deadline no_deadline() {
  return Deadline::at(Monotonic::max());
}

struct Exchange {
  enum class Side : unsigned char { open, ended, failed };

  std::int32_t id = 0;
  std::weak_ptr<H2Engine> engine;

  // Head of the peer's message.
  std::string method;
  std::string path;
  std::string authority;
  int status = 0;
  std::optional<http::Fields> fields;  // kept if there are any to put them into
  std::size_t header_bytes = 0;

  // What the peer sends. `streamed`: read while it arrives, the window is the bound and given back as it is
  // read; else whole and at most `input_max`. `discard`: nobody will read it.
  bool streamed = false;
  Side in = Side::open;
  ByteQueue received;
  bool discard = false;
  std::size_t input_max = 0;

  // What we send; `ended` means: END_STREAM follows what is pending.
  Side out = Side::open;
  ByteQueue pending;
  bool deferred = false;  // nghttp2 waits to be told of more

  bool closed = false;  // nghttp2 knows it no more
  Error error;          // why a side failed
  Signal readable;      // input, head, end or failure
  Signal writable;

  // A tunnel that the peer has not accepted; what is received then is its reason.
  bool refused() const { return status >= 300; }
  bool done() const { return in == Side::ended && out == Side::ended; }
  // Reset by either peer: both directions fail, unread input is dropped.
  void abort(Error why);
  // Ended from outside (stream closed, session over): what is complete stays, the rest fails.
  void cut(const Error& why);
};

using ExchangePtr = std::shared_ptr<Exchange>;

// The owner of an exchange's use: resets the stream if it is not done.
class ExchangeOwner {
 public:
  explicit ExchangeOwner(ExchangePtr exchange) : exchange_(std::move(exchange)) {}
  ExchangeOwner(ExchangeOwner&&) noexcept = default;
  ExchangeOwner& operator=(ExchangeOwner&&) = delete;
  ~ExchangeOwner();

  Exchange& operator*() const { return *exchange_; }
  Exchange* operator->() const { return exchange_.get(); }

 private:
  ExchangePtr exchange_;
};

// These hold the exchange themselves, so that an owner destroyed under a pending call does no harm.
Task<Result<std::size_t>> read_input(ExchangePtr exchange, std::span<std::byte> into);  // 0 at the end
Task<Result<void>> write_output(ExchangePtr exchange, std::span<const std::byte> bytes);
Result<void> end_output(Exchange& exchange);

// The tunnel's Stream.
StreamPtr make_tunnel_stream(ExchangePtr exchange);

}  // namespace space
