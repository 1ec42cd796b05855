#include "control/proxy.h"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/bytes.h"
#include "base/log.h"
#include "control/proxy_headers.h"

namespace space::control {
namespace {

// The node holds a request for up to 30 s while a sandbox is in transition.
constexpr Millis tunnel_patience{35'000};
// A service of the guest may be about to listen.
constexpr int dial_attempts = 5;
constexpr Millis dial_pause{100};
constexpr std::size_t piece_bytes = 64 * 1024;

const Deadline never = Deadline::at(Monotonic::max());

std::string refusal_json(const DataPlaneRoute& route, int status, std::string_view message) {
  return to_text(JsonObject{{"sandboxId", route.sandbox}, {"message", message}, {"code", status}});
}

http::ResponseHead json_head(int status) {
  http::ResponseHead head;
  head.status = status;
  head.fields.add("Content-Type", "application/json; charset=utf-8");
  return head;
}

// One request on its way: both connections and how it went.
struct Exchange {
  Exchange(http::ServerExchange& c, OpeningTunnel tunnel, Deadline limit)
      : client(c), guest(std::move(tunnel.stream)), accepted(std::move(tunnel.accepted)), patience(limit) {}
  http::ServerExchange& client;
  http::ClientConnection guest;
  std::function<Task<Result<void>>(Deadline)> accepted;
  Deadline patience;          // for that
  http::RequestHead request;  // as the guest sees it
  enum class End : unsigned char { complete, broken, upgraded, unanswered } end = End::unanswered;
  Error why{Code::unavailable, "the guest closed the connection"};  // it is unanswered
  bool refused = false;                                             // the guest never heard of it
};

Task<Result<void>> send_request_body(Exchange& exchange) {
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
  while (true) {
    SPACE_CO_TRY(const std::size_t n, co_await exchange.client.body().read({piece.get(), piece_bytes}));
    if (n == 0) break;
    // The guest may answer and close without reading on: its answer is what counts, not our write.
    if (!co_await exchange.guest.write_body({piece.get(), n})) co_return Result<void>();
  }
  (void)co_await exchange.guest.end_request();
  co_return Result<void>();
}

// Returns only when the client is lost.
Task<void> attend_client(Exchange& exchange) {
  if (exchange.request.has_body() && !co_await send_request_body(exchange)) co_return;
  co_await exchange.client.peer_gone();
}

Task<void> pass_answer(Exchange& exchange) {
  if (const auto accepted = co_await exchange.accepted(exchange.patience); !accepted) {
    exchange.why = accepted.error();
    exchange.refused = true;
    co_return;
  }
  const auto response = co_await exchange.guest.read_response(never);
  if (!response) co_return;
  exchange.end = Exchange::End::broken;
  if (response->head.status == 101 && !exchange.request.wants_upgrade()) co_return;
  // What has come with the head leaves with it, and the last piece with the end: the client wakes once for
  // each.
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
  http::Body& body = exchange.guest.body();
  const auto first = body.at_hand() ? co_await body.read({piece.get(), piece_bytes}) : 0;
  if (!first || !co_await exchange.client.start_response(to_client(response->head), {piece.get(), *first}))
    co_return;
  if (response->head.status == 101) {
    exchange.end = Exchange::End::upgraded;
    co_return;
  }
  std::span<const std::byte> last;
  while (!body.done()) {
    const auto n = co_await body.read({piece.get(), piece_bytes});
    if (!n) co_return;
    last = {piece.get(), *n};
    if (!body.done() && !co_await exchange.client.write_body(last)) co_return;
  }
  if (co_await exchange.client.end_response(last)) exchange.end = Exchange::End::complete;
}

// False: the client left before the answer was complete.
Task<bool> run(Exchange& exchange) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (!co_await exchange.guest.write_request(exchange.request)) co_return true;
  if (!exchange.request.has_body()) (void)co_await exchange.guest.end_request();
  const auto first = co_await (attend_client(exchange) || pass_answer(exchange));
  co_return first.index() == 1;
}

// The daemon's own port takes every tunnel: the request goes right behind. Another may be closed and is asked
// first, so that the request can wait for it.
Task<Result<OpeningTunnel>> dial(NodeSessionPtr node, DataPlaneRoute route, Deadline deadline) {
  auto tunnel = co_await node->open_tunnel(route.sandbox, route.port, deadline);
  if (tunnel && route.port != envd_port) SPACE_CO_CHECK(co_await tunnel->accepted(deadline));
  co_return tunnel;
}

bool has_traffic_token(const http::RequestHead& head, const DataPlaneTarget& target) {
  const auto given = head.fields.get(traffic_token_header);
  return given && equal_in_constant_time(*given, target.traffic_token);
}

}  // namespace

std::expected<DataPlaneTarget, Proxy::Refusal> Proxy::admit(const http::RequestHead& head,
                                                            const DataPlaneRoute& route) const {
  const auto target = sandboxes_.data_plane_target(route.sandbox);
  if (!target) return std::unexpected(Refusal{502, refusal_json(route, 502, "The sandbox was not found")});
  if (route.port == envd_port) {
    if (!is_internal_path(head.path())) return *target;
    return std::unexpected(Refusal{
        404,
        to_text(JsonObject{{"message", "There is no such route"}, {"path", head.path()}, {"code", 404}})});
  }
  if (target->traffic_token.empty() || has_traffic_token(head, *target)) return *target;
  const auto message =
      head.fields.get(traffic_token_header)
          ? fmt::format(
                "Sandbox is secured with traffic access token. Provided token in header "
                "'{}' is invalid",
                traffic_token_header)
          : fmt::format("Sandbox is secured with traffic access token. Token header '{}' is missing",
                        traffic_token_header);
  return std::unexpected(Refusal{403, refusal_json(route, 403, message)});
}

Proxy::Refusal Proxy::unreachable(const DataPlaneRoute& route, const Error& error) const {
  if (error.code == Code::conflict || error.code == Code::deadline)
    return {409, refusal_json(route, 409, "The sandbox is still transitioning. Try again in a moment.")};
  if (error.code == Code::exhausted)
    return {429,
            refusal_json(route, 429, "Too many connections to sandboxes are open. Close some and try again")};
  // The daemon always listens while the sandbox lives: if it does not, the sandbox is going.
  const bool port_closed = error.code == Code::unavailable && route.port != envd_port &&
                           sandboxes_.data_plane_target(route.sandbox);
  if (!port_closed) return {502, refusal_json(route, 502, "The sandbox was not found")};
  return {502, to_text(JsonObject{{"sandboxId", route.sandbox},
                                  {"message", "The sandbox is running but port is not open"},
                                  {"port", route.port},
                                  {"code", 502}})};
}

Task<Proxy::Outcome<OpeningTunnel>> Proxy::open_tunnel(DataPlaneRoute route, Deadline deadline) {
  for (int attempt = 1;; ++attempt) {
    const auto node = co_await nodes_.wait(deadline.at_most(sandboxes_.limits().node_patience));
    if (!node)
      co_return std::unexpected(Refusal{
          502, refusal_json(route, 502, "The node of the sandbox is not connected. Try again in a moment.")});
    auto tunnel = co_await dial(node, route, deadline);
    if (tunnel) co_return *std::move(tunnel);
    const bool refused = tunnel.error().code == Code::unavailable;
    const bool again = refused && (node->closed() || route.port != envd_port) && attempt < dial_attempts;
    if (!again || !sandboxes_.data_plane_target(route.sandbox))
      co_return std::unexpected(unreachable(route, tunnel.error()));
    co_await sleep_for(dial_pause * attempt);
  }
}

Task<void> Proxy::refuse(http::ServerExchange& client, Refusal refusal) {
  (void)co_await client.respond(json_head(refusal.status), refusal.body);
}

// Of one that could not be woken for the request.
Proxy::Refusal Proxy::asleep(const DataPlaneRoute& route, const Error& error) const {
  if (error.code == Code::not_found) return {502, refusal_json(route, 502, "The sandbox was not found")};
  if (error.code == Code::conflict || error.code == Code::deadline) return unreachable(route, error);
  return {503, refusal_json(route, 503, "The sandbox could not be resumed: " + error.message)};
}

bool Proxy::fell_asleep(const DataPlaneRoute& route, Deadline patience) const {
  const auto target = sandboxes_.data_plane_target(route.sandbox);
  return target && !target->awake && !patience.passed();
}

// A tunnel into a sandbox that is awake, or has been woken for it. One that falls asleep in between is waited
// for again.
Task<Proxy::Outcome<OpeningTunnel>> Proxy::reach(DataPlaneRoute route, Deadline patience) {
  while (true) {
    if (fell_asleep(route, patience)) {
      if (const auto awake = co_await sandboxes_.awaken(route.sandbox, patience); !awake)
        co_return std::unexpected(asleep(route, awake.error()));
    }
    auto tunnel = co_await open_tunnel(route, patience);
    if (tunnel || !fell_asleep(route, patience)) co_return tunnel;
  }
}

// True: the sandbox fell asleep before it heard of the request, which can be made again.
Task<bool> Proxy::attempt(http::ServerExchange& client, const http::RequestHead& head, DataPlaneRoute route,
                          DataPlaneTarget target, Deadline patience) {
  auto tunnel = co_await reach(route, patience);
  if (!tunnel) {
    co_await refuse(client, tunnel.error());
    co_return false;
  }
  Exchange exchange(client, *std::move(tunnel), patience);
  exchange.request = to_guest(head, target, route.port);
  const bool client_stayed = co_await run(exchange);
  if (!client_stayed) exchange.guest.abort();
  using End = Exchange::End;
  if (client_stayed && exchange.end == End::complete) co_return false;
  if (client_stayed && exchange.end == End::upgraded) {
    co_await splice(client.release(), exchange.guest.release());
    co_return false;
  }
  if (client_stayed && exchange.end == End::unanswered) {
    if (exchange.refused && !head.has_body() && fell_asleep(route, patience)) co_return true;
    co_await refuse(client, unreachable(route, exchange.why));
    co_return false;
  }
  client.abort();
  co_return false;
}

Task<void> Proxy::serve(http::ServerExchange& client, http::RequestHead head, DataPlaneRoute route) {
  const auto target = admit(head, route);
  if (!target) co_return co_await refuse(client, target.error());
  const Deadline patience = Deadline::after(tunnel_patience);
  while (co_await attempt(client, head, route, *target, patience)) {
  }
}

Task<Proxy::Outcome<DataPlaneRoute>> Proxy::admit_tunnel(http::RequestHead head, std::string team,
                                                         std::string sandbox) {
  const auto refusal = [](ApiError error) { return std::unexpected(Refusal{error.status, to_body(error)}); };
  if (!head.wants_upgrade() || !head.fields.has_token("Upgrade", "tcp"))
    co_return refusal({426, "A tunnel needs 'Connection: Upgrade' and 'Upgrade: tcp'", "", ""});
  const auto port = parse_port(http::query_value(head.query(), "port").value_or(""));
  if (!port) co_return refusal({400, "'port' must be a port of the sandbox, 1 to 65535", "", ""});
  if (*port == envd_port)
    co_return refusal({403, "The daemon's port has no tunnel. Send HTTP requests to it", "", ""});
  if (const auto found = co_await sandboxes_.find(std::move(team), sandbox); !found)
    co_return refusal(to_api_error(found.error()));
  co_return DataPlaneRoute{std::move(sandbox), *port};
}

Task<void> Proxy::tunnel(http::ServerExchange& client, http::RequestHead head, std::string team,
                         std::string sandbox) {
  const auto route = co_await admit_tunnel(std::move(head), std::move(team), std::move(sandbox));
  if (!route) co_return co_await refuse(client, route.error());
  auto opened = co_await reach(*route, Deadline::after(tunnel_patience));
  if (!opened) co_return co_await refuse(client, opened.error());
  http::ResponseHead switching;
  switching.status = 101;
  switching.fields.add("Connection", "Upgrade");
  switching.fields.add("Upgrade", "tcp");
  if (co_await client.start_response(std::move(switching)))
    co_await splice(client.release(), std::move(opened->stream));
}

}  // namespace space::control
