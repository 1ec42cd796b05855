#include "sandboxd/control_link.h"

#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis dial_limit = 5s;
constexpr Millis redial_min = 100ms;
constexpr Millis redial_max = 5s;

// One session carries every client connection to every sandbox of the node.
H2Limits node_session_limits() {
  H2Limits limits;
  limits.streams_max = 16 * 1024;
  limits.resets_per_second_max = node_session_resets_per_second_max;
  limits.session_window_bytes = 64 * 1024 * 1024;
  return limits;
}

}  // namespace

Task<void> serve_control(std::string socket_path, H2Handlers handlers) {
  Millis pause = redial_min;
  while (true) {
    auto stream = co_await connect_unix(socket_path, Deadline::after(dial_limit));
    if (stream) {
      pause = redial_min;
      const auto session = H2Session::server(*std::move(stream), handlers, node_session_limits());
      log::info("control plane connected");
      const Error ended = co_await session->run();
      log::info("control plane disconnected", {log::Field(ended)});
    }
    co_await sleep_for(pause);
    pause = std::min(pause * 2, redial_max);
  }
}

}  // namespace space
