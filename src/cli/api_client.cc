#include "cli/api_client.h"

#include "net/connect.h"
#include "net/h2_session.h"

namespace space::cli {

namespace {

constexpr std::size_t answer_limit_bytes = 16 * 1024 * 1024;

http::RequestHead json_request(std::string method, std::string target, std::size_t body_bytes) {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.content_length = body_bytes;
  head.fields.add("Content-Type", "application/json");
  head.fields.add("Connection", "close");
  head.fields.add("User-Agent", "space-cli");
  return head;
}

// The server's own words where it sent any.
Error error_of(int status, const Json& body) {
  std::string message = fmt::format("the API answered {}", status);
  if (body.is_object())
    if (auto text = text_member(body.get_object(), "message"); text && *text) message = **std::move(text);
  return Error{code_of_http_status(status), std::move(message)};
}

Task<Result<void>> send(http::ClientConnection& connection, http::RequestHead head, std::string body) {
  SPACE_CO_CHECK(co_await connection.write_request(head));
  if (!body.empty()) SPACE_CO_CHECK(co_await connection.write_body(as_bytes(body)));
  co_return co_await connection.end_request();
}

}  // namespace

Task<Result<StreamPtr>> ApiClient::dial(Deadline deadline) const {
  auto stream = co_await connect_tcp(settings_.host, settings_.port, deadline);
  if (!stream)
    co_return fail(Code::unavailable, "SPACE does not answer on {}:{} ({}). Start it: sudo space up -d",
                   settings_.host, settings_.port, stream.error().message);
  co_return std::move(stream);
}

Task<Result<Answer>> ApiClient::call(std::string method, std::string target, std::optional<JsonObject> body,
                                     Millis timeout) const {
  const Deadline deadline = Deadline::after(timeout);
  SPACE_CO_TRY(StreamPtr stream, co_await dial(deadline));
  http::ClientConnection connection(std::move(stream));
  std::string text = body ? to_text(*std::move(body)) : "";
  http::RequestHead head = json_request(std::move(method), std::move(target), text.size());
  head.fields.add("Host", fmt::format("{}:{}", settings_.host, settings_.port));
  head.fields.add("X-API-Key", settings_.api_key.reveal());
  SPACE_CO_CHECK(co_await send(connection, std::move(head), std::move(text)));
  SPACE_CO_TRY(const auto response, co_await connection.read_response(deadline));
  SPACE_CO_TRY(const std::string content, co_await http::read_all(connection.body(), answer_limit_bytes));
  Answer answer{response.head.status, nullptr,
                std::string(response.head.fields.get("X-Next-Token").value_or(""))};
  if (!content.empty()) {
    if (auto value = parse_json(content)) answer.body = *std::move(value);
  }
  if (answer.status >= 400) co_return std::unexpected(error_of(answer.status, answer.body));
  co_return answer;
}

Task<Result<Target>> ApiClient::connect_sandbox(std::string sandbox_id) const {
  JsonObject request;
  request["timeout"] = 1;  // connect never shortens a life: this only looks
  SPACE_CO_TRY(Answer answer,
               co_await call("POST", "/v2/sandboxes/" + http::percent_encode(sandbox_id) + "/connect",
                             std::move(request)));
  if (!answer.body.is_object()) co_return fail(Code::internal, "the API sent no sandbox");
  SPACE_CO_TRY(auto token, text_member(answer.body.get_object(), "envdAccessToken"));
  SPACE_CO_TRY(auto id, require_text(answer.body.get_object(), "sandboxID"));
  co_return Target{std::move(id), SecretText(std::move(token).value_or(""))};
}

Task<Result<std::unique_ptr<http::ClientConnection>>> ApiClient::open_daemon(const Target& target,
                                                                             http::RequestHead head) const {
  head.fields.add("Host", fmt::format("{}:{}", settings_.host, settings_.port));
  head.fields.add("E2b-Sandbox-Id", target.sandbox_id);
  head.fields.add("E2b-Sandbox-Port", "49983");
  head.fields.add("X-Access-Token", target.access_token.reveal());
  SPACE_CO_TRY(StreamPtr stream, co_await dial(Deadline::after(Millis(10'000))));
  auto connection = std::make_unique<http::ClientConnection>(std::move(stream));
  SPACE_CO_CHECK(co_await connection->write_request(head));
  co_return connection;
}

Task<Result<JsonObject>> ApiClient::daemon_call(const Target& target, std::string procedure,
                                                JsonObject request) const {
  const std::string body = to_text(request);
  http::RequestHead head = json_request("POST", std::move(procedure), body.size());
  head.fields.add("Connect-Protocol-Version", "1");
  SPACE_CO_TRY(auto connection, co_await open_daemon(target, std::move(head)));
  SPACE_CO_CHECK(co_await connection->write_body(as_bytes(body)));
  SPACE_CO_CHECK(co_await connection->end_request());
  SPACE_CO_TRY(const auto response, co_await connection->read_response(Deadline::after(Millis(60'000))));
  SPACE_CO_TRY(const std::string content, co_await http::read_all(connection->body(), answer_limit_bytes));
  auto value = parse_json(content.empty() ? "{}" : content);
  if (response.head.status != 200)
    co_return std::unexpected(error_of(response.head.status, value ? *value : Json()));
  if (!value || !value->is_object()) co_return fail(Code::internal, "the sandbox sent no JSON object");
  co_return std::move(value->get_object());
}

}  // namespace space::cli
