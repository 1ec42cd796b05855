#include "guest/http_service.h"

#include "base/bytes.h"

namespace space::guest {

namespace {

constexpr Millis idle_limit{640'000};  // longer than any proxy's in front
constexpr std::string_view process_prefix = "/process.Process/";
constexpr std::string_view filesystem_prefix = "/filesystem.Filesystem/";

Task<void> refuse(http::ServerExchange& client, Error why) {
  const http::RequestHead none;
  co_await Exchange{client, none}.respond_error(why.code == Code::exhausted ? 431 : 400, why.message);
}

}  // namespace

HttpService::HttpService(GuestState& state, ProcessTable& table)
    : state_(state),
      processes_(state, table),
      files_(state),
      filesystem_(state),
      server_({.request = [this](http::ServerExchange& client,
                                 http::RequestHead head) { return answer(client, std::move(head)); },
               .malformed = refuse},
              idle_limit) {}

Task<void> HttpService::answer(http::ServerExchange& client, http::RequestHead head) {
  co_await route({client, head});
}

Task<void> HttpService::route(Exchange exchange) {
  const http::RequestHead& head = exchange.head;
  const std::string_view path = head.path();
  if (head.method == "OPTIONS") co_return co_await preflight(exchange);
  if (path == "/health" && head.method == "GET") co_return co_await exchange.respond(204, "", "");
  if (path == "/files") co_return co_await files(exchange);
  if (!token_matches(head))
    co_return co_await exchange.respond_error(
        401, "unauthorized access, please provide a valid access token or method signing if supported");
  if (path.starts_with(process_prefix) || path.starts_with(filesystem_prefix)) {
    if (head.method != "POST") co_return co_await exchange.respond_error(405, "use POST");
    if (path.starts_with(process_prefix))
      co_return co_await processes_.handle(exchange, std::string(path.substr(process_prefix.size())));
    co_return co_await filesystem_.handle(exchange, std::string(path.substr(filesystem_prefix.size())));
  }
  if (path == "/envs" && head.method == "GET") {
    JsonObject variables;
    for (const auto& [name, value] : state_.environment) variables[name] = value;
    co_return co_await exchange.respond(200, "application/json", to_text(variables));
  }
  if (path == "/metrics" && head.method == "GET") co_return co_await metrics(exchange);
  if (path == "/files/compose" && head.method == "POST") co_return co_await files_.compose(exchange);
  co_await exchange.respond_error(404, fmt::format("no route {} {}", head.method, path));
}

Task<void> HttpService::files(Exchange exchange) {
  const http::RequestHead& head = exchange.head;
  const auto now = std::chrono::floor<std::chrono::seconds>(system_clock().wall());
  auto refusal = file_access_refusal(head, state_.access_token.reveal(), now.time_since_epoch().count());
  if (refusal) co_return co_await exchange.respond_error(401, *std::move(refusal));
  if (head.method == "GET" || head.method == "HEAD") co_return co_await files_.read(exchange);
  if (head.method == "POST") co_return co_await files_.write(exchange);
  co_await exchange.respond_error(405, "use GET, HEAD or POST");
}

Task<void> HttpService::metrics(Exchange exchange) {
  const auto figures = metrics_.read();
  if (!figures) co_return co_await exchange.respond_error(500, figures.error().message);
  co_await exchange.respond(200, "application/json", to_text(*figures));
}

Task<void> HttpService::preflight(Exchange exchange) {
  http::ResponseHead answer = exchange.answer(204, "");
  answer.fields.add("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
  answer.fields.add("Access-Control-Allow-Headers",
                    exchange.head.fields.get("Access-Control-Request-Headers").value_or("*"));
  answer.fields.add("Access-Control-Max-Age", "7200");
  (void)co_await exchange.connection.respond(std::move(answer), "");
}

bool HttpService::token_matches(const http::RequestHead& head) const {
  const std::string& token = state_.access_token.reveal();
  return token.empty() || equal_in_constant_time(head.fields.get("X-Access-Token").value_or(""), token);
}

}  // namespace space::guest
