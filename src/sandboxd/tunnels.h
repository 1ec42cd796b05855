// CONNECT <sandbox id>:<port> of the node session, carried on as CONNECT localhost:<port> of the sandbox's
// channel.
#pragma once

#include <string>

#include "net/h2_session.h"
#include "sandboxd/manager.h"

namespace space {

struct TunnelTarget {
  std::string sandbox_id;
  std::uint16_t port = 0;
};
// "i…:49983"; nothing else.
Result<TunnelTarget> parse_tunnel_target(std::string_view authority);

// not_found: no such sandbox; conflict: in transition for 30 s; unavailable: not running, silent, or refused
// inside.
Task<Result<H2Handlers::Tunnel>> open_tunnel(Manager& manager, std::string authority);

}  // namespace space
