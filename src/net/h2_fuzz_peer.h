// Runs one HTTP/2 session against a peer that sends what the fuzzer made up, for h2_*_fuzzer.cc.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <string>

#include "net/h2_session.h"
#include "net/h2_test_frames.h"

namespace space::h2_test {

inline H2Limits fuzz_limits() {
  return {.streams_max = 8,
          .tunnel_window_bytes = 65535,
          .session_window_bytes = 256 * 1024,
          .call_body_bytes_max = 4096,
          .header_bytes_max = 2048,
          .resets_per_second_max = 100};
}

inline Task<void> drive(std::shared_ptr<H2Session> session) {
  (void)co_await session->run();
}

// The peer: sends all, reads as long as the session talks, then hangs up.
inline Task<void> send_and_hang_up(std::shared_ptr<Stream> peer, std::string bytes) {
  (void)co_await peer->write(as_bytes(bytes));
  (void)co_await peer->finish();
}
inline Task<void> swallow(std::shared_ptr<Stream> peer) {
  std::array<std::byte, 4096> buffer;
  while ((co_await peer->read(buffer)).value_or(0) > 0) {
  }
}

// Runs until the peer's bytes are through; the session must then be closed, with no stream left.
inline void exchange_with(boost::asio::io_context& io, const std::shared_ptr<H2Session>& session,
                          StreamPtr peer_end, std::string bytes) {
  const std::shared_ptr<Stream> peer = std::move(peer_end);
  spawn(io.get_executor(), "session", drive(session));
  spawn(io.get_executor(), "peer", swallow(peer));
  spawn(io.get_executor(), "peer", send_and_hang_up(peer, std::move(bytes)));
  io.run();
  if (!session->closed() || session->open_streams() != 0) std::abort();
}

}  // namespace space::h2_test
