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
constexpr Millis retire_look{10};

Task<void> send(http::ServerExchange& client, Reply reply) {
  http::ResponseHead head;
  head.status = reply.status;
  head.fields = std::move(reply.fields);
  if (!reply.body.empty()) head.fields.set("Content-Type", "application/json");
  (void)co_await client.respond(std::move(head), reply.body);
}

Task<void> send_text(http::ServerExchange& client, int status, std::string text) {
  http::ResponseHead head;
  head.status = status;
  head.fields.set("Content-Type", "text/plain; charset=utf-8");
  (void)co_await client.respond(std::move(head), text);
}

ApiError body_error(const Error& error) {
  if (error.code == Code::exhausted)
    return {413, fmt::format("The request body is larger than {} KiB", body_bytes_max / 1024), "", ""};
  if (error.code == Code::deadline) return {408, "The request body did not arrive in time", "", ""};
  return {400, error.message, "", ""};
}

Task<void> refuse(http::ServerExchange& client, Error why) {
  co_await send(client, to_reply({why.code == Code::exhausted ? 431 : 400, why.message, "", ""}));
}

}  // namespace

Edge::Edge(const Executor& executor, Api& api, Proxy& proxy, SignedUrls& signed_urls)
    : executor_(executor),
      api_(api),
      proxy_(proxy),
      signed_urls_(signed_urls),
      server_({.request = [this](http::ServerExchange& client,
                                 http::RequestHead head) { return answer(client, std::move(head)); },
               .malformed = refuse},
              idle_patience) {}

Task<void> Edge::run(std::unique_ptr<Listener> listener) {
  while (true) {
    auto stream = co_await listener->accept();
    if (stream) {
      if (server_.connections() >= connections_max) continue;  // closes it
      spawn(executor_, "client connection", serve(*std::move(stream)));
    } else if (stream.error().code == Code::unavailable) {
      co_return;
    } else {
      log::warn("connection not accepted", {log::Field(stream.error())});
      co_await sleep_for(accept_pause);
    }
  }
}

Task<void> Edge::retire(Deadline deadline) {
  server_.retire();
  while (server_.exchanges() > 0 && !deadline.passed()) co_await sleep_for(retire_look);
}

Task<void> Edge::answer(http::ServerExchange& client, http::RequestHead head) {
  Route target = route(head);
  if (auto* data_plane = std::get_if<DataPlaneRoute>(&target))
    co_return co_await proxy_.serve(client, std::move(head), std::move(*data_plane));
  auto* api = std::get_if<ApiRoute>(&target);
  if (api && api->action == Action::signed_file)
    co_return co_await answer_signed_file(client, std::move(head));
  if (api) co_return co_await answer_api(client, std::move(head), std::move(*api));
  if (auto* invalid = std::get_if<InvalidTarget>(&target))
    co_return co_await send_text(client, 400, std::move(invalid->message));
  co_return co_await send(client, to_reply(std::get<ApiError>(target)));
}

Task<void> Edge::answer_signed_file(http::ServerExchange& client, http::RequestHead head) {
  auto sandbox = co_await signed_urls_.sandbox_of(head, client.peer_is_loopback());
  if (sandbox) co_return co_await proxy_.serve(client, std::move(head), {*std::move(sandbox), envd_port});
  Reply reply = to_reply(sandbox.error());
  if (reply.status == 429) reply.fields.set("Retry-After", "1");
  co_await send(client, std::move(reply));
}

Task<void> Edge::answer_api(http::ServerExchange& client, http::RequestHead head, ApiRoute route) {
  std::optional<std::string> key;
  if (const auto field = head.fields.get("X-API-Key")) key = std::string(*field);
  auto team = co_await api_.authenticate(route.action, std::move(key));
  if (!team) co_return co_await send(client, to_reply(to_api_error(team.error())));
  auto body = co_await with_deadline(http::read_all(client.body(), body_bytes_max),
                                     Deadline::after(body_patience), "reading the request body");
  if (!body) co_return co_await send(client, to_reply(body_error(body.error())));
  if (route.action == Action::sandbox_tunnel)
    co_return co_await proxy_.tunnel(client, std::move(head), team->id, std::move(route.id));
  ApiRequest request{std::move(route), *std::move(team), std::string(head.query()), *std::move(body)};
  co_return co_await send(client, co_await api_.handle(std::move(request)));
}

}  // namespace space::control
