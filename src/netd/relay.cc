#include "netd/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cerrno>

#include "base/bytes.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace asio::experimental::awaitable_operators;

// A side that always keeps up would never return to the loop.
constexpr unsigned reads_before_yield = 8;
// When this much of a sandbox waits for sides that take nothing, its flows read in small pieces: what waits
// is bounded by this and a piece for each direction.
constexpr std::uint64_t waiting_bytes_max = 4 * 1024 * 1024;
constexpr std::size_t small_piece_bytes = 4 * 1024;

struct State {
  RelayParts parts;
  unsigned ended = 0;  // directions
  RelayEnd end = RelayEnd::ended;

  void abort(RelayEnd why) {
    if (end == RelayEnd::ended) end = why;
    parts.guest->reset();
    parts.upstream->reset();
  }
};

struct Direction {
  FlowSocket& from;
  FlowSocket& to;
  bool to_guest;
};

// What a writer could not take at once, counted while it waits.
class Waiting {
 public:
  Waiting(Traffic& traffic, std::span<const std::byte> bytes)
      : traffic_(traffic), bytes_(bytes.begin(), bytes.end()) {
    traffic_.waiting += bytes_.size();
  }
  ~Waiting() { traffic_.waiting -= bytes_.size(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  std::span<const std::byte> left() const { return std::span(bytes_).subspan(sent_); }
  void sent(std::size_t n) { sent_ += n; }

 private:
  Traffic& traffic_;
  Bytes bytes_;
  std::size_t sent_ = 0;
};

// How many went at once, or nothing when the socket broke.
std::optional<std::size_t> send_now(FlowSocket& to, std::span<const std::byte> bytes) {
  const ssize_t n = ::send(to.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return static_cast<std::size_t>(n);
  if (errno == EAGAIN || errno == EINTR) return 0;
  return std::nullopt;
}

// Until all is sent. A sender that resets meanwhile is noticed although nothing is read from it. False:
// broken.
Task<bool> send_rest(Direction way, Traffic& traffic, Bytes rest) {
  Waiting waiting(traffic, rest);
  Bytes().swap(rest);
  bool watch = true;
  while (!waiting.left().empty()) {
    if (watch) {
      co_await (way.to.writable() || way.from.broken());
    } else {
      co_await way.to.writable();
    }
    if (!way.from.open() || !way.to.open() || way.from.failed()) co_return false;
    const auto n = send_now(way.to, waiting.left());
    if (!n) co_return false;
    // Woken without room: `from` has had both its ends, and would wake us for ever.
    if (*n == 0) watch = false;
    waiting.sent(*n);
  }
  co_return true;
}

// One piece from the scratch buffer on its way. False: the direction is over.
Task<bool> pass_on(State& state, Direction way, std::span<const std::byte> piece) {
  (way.to_guest ? state.parts.count.in : state.parts.count.out) += piece.size();
  const Millis pause = state.parts.traffic.moved(way.to_guest, piece.size(), system_clock().monotonic());
  const auto sent = send_now(way.to, piece);
  const bool whole = sent && *sent == piece.size();
  if (!sent) co_return false;
  if (!whole) {
    const auto rest = piece.subspan(*sent);
    if (!co_await send_rest(way, state.parts.traffic, Bytes(rest.begin(), rest.end()))) co_return false;
  }
  if (pause > Millis(0)) co_await sleep_for(pause);
  co_return true;
}

// An RST that follows a side's end is passed on, too.
Task<void> watch_after_end(State& state, Direction way) {
  way.to.finish();
  if (++state.ended == 2) {
    state.parts.guest->close();
    state.parts.upstream->close();
    co_return;
  }
  co_await way.from.broken();
  if (way.from.open()) state.abort(RelayEnd::broken);
}

Task<void> copy(State& state, Direction way) {
  const auto scratch = state.parts.scratch;
  unsigned reads = 0;
  while (true) {
    const bool small = state.parts.traffic.waiting > waiting_bytes_max;
    const std::size_t room = small ? std::min(small_piece_bytes, scratch.size()) : scratch.size();
    const ssize_t n = ::recv(way.from.fd(), scratch.data(), room, MSG_DONTWAIT);
    if (n == 0) break;
    if (n < 0 && errno == EAGAIN) {
      co_await way.from.readable();
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) co_return state.abort(RelayEnd::broken);
    if (!co_await pass_on(state, way, scratch.first(static_cast<std::size_t>(n))))
      co_return state.abort(RelayEnd::broken);
    if (state.parts.traffic.quota_used_up()) co_return state.abort(RelayEnd::quota);
    if (++reads % reads_before_yield == 0) co_await asio::post(asio::use_awaitable);
  }
  co_await watch_after_end(state, way);
}

}  // namespace

Task<RelayEnd> relay(RelayParts parts) {
  State state{parts};
  FlowSocket& guest = *parts.guest;
  FlowSocket& upstream = *parts.upstream;
  co_await (copy(state, {guest, upstream, false}) && copy(state, {upstream, guest, true}));
  co_return state.end;
}

}  // namespace space::netd
