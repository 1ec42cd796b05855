#include "sandboxd/tunnels.h"

#include <charconv>

#include "base/ids.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis transition_limit = 30s;
constexpr Millis connect_limit = 30s;
constexpr std::uint16_t daemon_port = 49983;

// The daemon's own port takes every tunnel, so nobody waits to hear it: the request goes right behind.
Task<Result<StreamPtr>> dial(std::shared_ptr<H2Session> session, std::uint16_t port) {
  const std::string authority = fmt::format("localhost:{}", port);
  const Deadline deadline = Deadline::after(connect_limit);
  if (port != daemon_port) co_return co_await session->connect(authority, deadline);
  SPACE_CO_TRY(OpeningTunnel tunnel, co_await session->open_tunnel(authority, deadline));
  co_return std::move(tunnel.stream);
}

}  // namespace

Result<TunnelTarget> parse_tunnel_target(std::string_view authority) {
  const std::size_t colon = authority.find(':');
  TunnelTarget target;
  target.sandbox_id = authority.substr(0, colon);
  if (colon == std::string_view::npos || !is_sandbox_id(target.sandbox_id))
    return fail(Code::invalid_argument, "a tunnel goes to <sandbox id>:<port>");
  const std::string_view digits = authority.substr(colon + 1);
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, target.port);
  if (error != std::errc() || stop != end || target.port == 0)
    return fail(Code::invalid_argument, "a tunnel's port is a number between 1 and 65535");
  return target;
}

Task<Result<H2Handlers::Tunnel>> open_tunnel(Manager& manager, std::string authority) {
  SPACE_CO_TRY(const TunnelTarget target, parse_tunnel_target(authority));
  const std::shared_ptr<Sandbox> sandbox = manager.find(target.sandbox_id);
  if (!sandbox) co_return fail(Code::not_found, "sandbox {} is not on this node", target.sandbox_id);
  SPACE_CO_TRY(const std::shared_ptr<H2Session> session,
               co_await sandbox->session(Deadline::after(transition_limit)));
  auto inner = co_await dial(session, target.port);
  // Whatever went wrong inside is one thing outside: nobody answers there.
  if (!inner) co_return fail(Code::unavailable, "port {}: {}", target.port, inner.error().message);
  // std::function copies what it holds, a stream has one owner.
  auto guest = std::make_shared<StreamPtr>(sandbox->meter().metered(*std::move(inner)));
  co_return [guest](StreamPtr client) { return splice(std::move(client), std::move(*guest)); };
}

}  // namespace space
