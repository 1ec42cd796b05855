// Serves the private channel (api/channel.md): one attach after the other, control calls and tunnels.
#pragma once

#include "guest/channel_port.h"
#include "guest/control_calls.h"
#include "guest/http_service.h"
#include "net/channel_acceptor.h"

namespace space::guest {

inline constexpr std::uint16_t daemon_port = 49983;

class ChannelService {
 public:
  ChannelService(const Executor& executor, HttpService& http, ControlCalls& calls)
      : http_(http), calls_(calls), changed_(executor) {}

  // For ever: waits for a host, answers its SYNC, serves the session until it ends, waits for the next.
  Task<void> run(ChannelPort port);
  // The same over one connection, for as long as it is of use; why it no longer is.
  Task<Error> serve(StreamPtr transport);
  std::size_t open_tunnels() const { return open_tunnels_; }
  // Tells the host that this session is over, and serves no other until go_on(): whoever comes meanwhile
  // waits. Completes when the session has ended, or at the deadline.
  Task<void> hang_up(Deadline deadline);
  void go_on();

 private:
  Task<Error> serve_session(channel::Acceptor& acceptor);
  H2Handlers handlers();
  Task<Result<H2Handlers::Tunnel>> accept_tunnel(std::string authority);
  Task<void> run_tunnel(StreamPtr stream, StreamPtr target);

  HttpService& http_;
  ControlCalls& calls_;
  std::size_t open_tunnels_ = 0;
  std::shared_ptr<H2Session> session_;  // the one that is served
  bool held_ = false;
  Event changed_;
};

// "localhost:8080" -> 8080. Any other host, or a port that is no number from 1 to 65535: nullopt. Pure.
std::optional<std::uint16_t> tunnel_port(std::string_view authority);

}  // namespace space::guest
