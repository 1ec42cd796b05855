// Proxy: the data plane. One request of a client to one port of one sandbox.
//
// Nothing is buffered beyond a piece: bodies stream both ways, a slow reader slows its producer. Each request
// has a tunnel of its own; when the tunnel breaks, so does the client's connection or stream, never with a
// clean end: that is how clients tell a killed sandbox from the end of an answer. A client that leaves resets
// its tunnel. A request to a sandbox in transition waits for the end of it; one that rests is woken if its
// creator allowed it, and is not there otherwise.
#pragma once

#include <string>

#include "control/node_link.h"
#include "control/router.h"
#include "control/sandbox_service.h"
#include "net/http.h"

namespace space::control {

class Proxy {
 public:
  Proxy(SandboxService& sandboxes, NodeLink& nodes) : sandboxes_(sandboxes), nodes_(nodes) {}

  // Answers `head`, whose body is still to be read from `client`.
  Task<void> serve(http::ServerExchange& client, http::RequestHead head, DataPlaneRoute route);
  // Turns the connection into a raw byte stream to a port of the guest's loopback (`?port=`), for programs
  // that do not speak HTTP. The caller authenticated `team`. Never the daemon's port.
  Task<void> tunnel(http::ServerExchange& client, http::RequestHead head, std::string team,
                    std::string sandbox);

 private:
  struct Refusal {
    int status;
    std::string body;  // JSON
  };
  template <class T>
  using Outcome = std::expected<T, Refusal>;

  std::expected<DataPlaneTarget, Refusal> admit(const http::RequestHead& head,
                                                const DataPlaneRoute& route) const;
  Task<Outcome<DataPlaneRoute>> admit_tunnel(http::RequestHead head, std::string team, std::string sandbox);
  Task<Outcome<OpeningTunnel>> open_tunnel(DataPlaneRoute route, Deadline deadline);
  Task<Outcome<OpeningTunnel>> reach(DataPlaneRoute route, Deadline patience);
  Task<bool> attempt(http::ServerExchange& client, const http::RequestHead& head, DataPlaneRoute route,
                     DataPlaneTarget target, Deadline patience);
  bool fell_asleep(const DataPlaneRoute& route, Deadline patience) const;
  Refusal asleep(const DataPlaneRoute& route, const Error& error) const;
  Refusal unreachable(const DataPlaneRoute& route, const Error& error) const;
  static Task<void> refuse(http::ServerExchange& client, Refusal refusal);

  SandboxService& sandboxes_;
  NodeLink& nodes_;
};

}  // namespace space::control
