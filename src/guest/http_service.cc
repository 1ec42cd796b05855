#include "guest/http_service.h"

#include "base/bytes.h"

namespace space::guest {

namespace {

constexpr Millis idle_limit{640'000};  // longer than any proxy's in front
constexpr std::string_view process_prefix = "/process.Process/";

}  // namespace

Task<void> HttpService::serve(StreamPtr stream) {
  http::ServerConnection connection(std::move(stream));
  for (;;) {
    const auto request = co_await connection.read_request(Deadline::after(idle_limit));
    if (!request) {
      const bool malformed = request.error().code == Code::invalid_argument;
      const http::RequestHead none;
      if (malformed) co_await Exchange{connection, none}.respond_error(400, request.error().message);
      co_return;
    }
    if (!*request) co_return;
    const http::RequestHead& head = **request;
    co_await route({connection, head});
    if (!head.keep_alive || !co_await connection.drain_request()) co_return;
  }
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
  if (path.starts_with(process_prefix)) {
    if (head.method != "POST") co_return co_await exchange.respond_error(405, "use POST");
    co_return co_await processes_.handle(exchange, std::string(path.substr(process_prefix.size())));
  }
  if (path == "/envs" && head.method == "GET") {
    JsonObject variables;
    for (const auto& [name, value] : state_.environment) variables[name] = value;
    co_return co_await exchange.respond(200, "application/json", to_text(variables));
  }
  co_await exchange.respond_error(404, fmt::format("no route {} {}", head.method, path));
}

// /files may be used without the token by a signed URL; such a URL is not known yet, so it never matches.
Task<void> HttpService::files(Exchange exchange) {
  const http::RequestHead& head = exchange.head;
  if (!token_matches(head)) {
    const bool has_token = head.fields.get("X-Access-Token").has_value();
    const bool has_signature = http::query_value(head.query(), "signature").has_value();
    co_return co_await exchange.respond_error(
        401, has_token ? "access token present in header but does not match"
                       : (has_signature ? "invalid signature" : "missing signature query parameter"));
  }
  if (head.method == "GET") co_return co_await files_.read(exchange);
  if (head.method == "POST") co_return co_await files_.write(exchange);
  co_await exchange.respond_error(405, "use GET or POST");
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
