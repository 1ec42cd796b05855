#include "control/edge.h"

#include "base/log.h"

namespace space::control {
namespace {

constexpr std::size_t connections_max = 8192;
constexpr std::size_t body_bytes_max = 1024 * 1024;
constexpr Millis body_patience{30'000};
// Longer than any client keeps a connection in its pool, so that it is the client who closes.
constexpr Millis idle_patience{650'000};
constexpr Millis accept_pause{100};

Task<bool> send(http::ServerConnection& connection, Reply reply) {
  http::ResponseHead head;
  head.status = reply.status;
  head.fields = std::move(reply.fields);
  if (!reply.body.empty()) head.fields.set("Content-Type", "application/json");
  co_return (co_await connection.respond(std::move(head), reply.body)).has_value();
}

Task<bool> send_text(http::ServerConnection& connection, int status, std::string text) {
  http::ResponseHead head;
  head.status = status;
  head.fields.set("Content-Type", "text/plain; charset=utf-8");
  co_return (co_await connection.respond(std::move(head), text)).has_value();
}

ApiError body_error(const Error& error) {
  if (error.code == Code::exhausted)
    return {413, fmt::format("The request body is larger than {} KiB", body_bytes_max / 1024), "", ""};
  if (error.code == Code::deadline) return {408, "The request body did not arrive in time", "", ""};
  return {400, error.message, "", ""};
}

}  // namespace

Task<void> Edge::run(std::unique_ptr<Listener> listener) {
  while (true) {
    auto stream = co_await listener->accept();
    if (stream) {
      if (connections_ >= connections_max) continue;  // closes it
      spawn(executor_, "client connection", serve(*std::move(stream)));
    } else if (stream.error().code == Code::unavailable) {
      co_return;
    } else {
      log::warn("connection not accepted", {log::Field(stream.error())});
      co_await sleep_for(accept_pause);
    }
  }
}

Task<void> Edge::serve(StreamPtr stream) {
  ++connections_;
  http::ServerConnection connection(std::move(stream));
  while (true) {
    auto head = co_await connection.read_request(Deadline::after(idle_patience));
    if (!head) {
      const bool too_large = head.error().code == Code::exhausted;
      if (too_large || head.error().code == Code::invalid_argument)
        co_await send(connection, to_reply({too_large ? 431 : 400, head.error().message, "", ""}));
      break;
    }
    if (!*head || !co_await answer(connection, **std::move(head))) break;
  }
  --connections_;
}

Task<bool> Edge::answer(http::ServerConnection& connection, http::RequestHead head) {
  Route target = route(head);
  if (auto* data_plane = std::get_if<DataPlaneRoute>(&target))
    co_return co_await proxy_.serve(connection, std::move(head), std::move(*data_plane));
  if (auto* api = std::get_if<ApiRoute>(&target))
    co_return co_await answer_api(connection, std::move(head), std::move(*api));
  if (auto* invalid = std::get_if<InvalidTarget>(&target))
    co_return co_await send_text(connection, 400, std::move(invalid->message));
  co_return co_await send(connection, to_reply(std::get<ApiError>(target)));
}

Task<bool> Edge::answer_api(http::ServerConnection& connection, http::RequestHead head, ApiRoute route) {
  std::optional<std::string> key;
  if (const auto field = head.fields.get("X-API-Key")) key = std::string(*field);
  auto team = co_await api_.authenticate(route.action, std::move(key));
  if (!team) co_return co_await send(connection, to_reply(to_api_error(team.error())));
  auto body = co_await with_deadline(http::read_all(connection.body(), body_bytes_max),
                                     Deadline::after(body_patience), "reading the request body");
  if (!body) co_return co_await send(connection, to_reply(body_error(body.error())));
  if (route.action == Action::sandbox_tunnel)
    co_return co_await proxy_.tunnel(connection, std::move(head), team->id, std::move(route.id));
  ApiRequest request{std::move(route), *std::move(team), std::string(head.query()), *std::move(body)};
  co_return co_await send(connection, co_await api_.handle(std::move(request)));
}

}  // namespace space::control
