#include "cli/api_client.h"

#include "cli/sandbox_lookup.h"
#include "net/connect.h"
#include "net/h2_session.h"

namespace space::cli {

namespace {

constexpr std::size_t answer_limit_bytes = 16 * 1024 * 1024;
constexpr Millis dial_patience{10'000};
constexpr Millis answer_patience{60'000};

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

bool shows_paused(const Answer& answer) {
  const JsonObject* shown = answer.body.if_object();
  return shown != nullptr && text_member(*shown, "state").value_or("") == "paused";
}

Task<Result<Target>> ApiClient::connect_sandbox(std::string wanted) const {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(*this, std::move(wanted)));
  // Connect never shortens a life, so a second only looks; one that rests gets a life to be used in.
  constexpr int woken_life_s = 3600;
  auto seen = co_await call("GET", "/sandboxes/" + id, std::nullopt);
  if (!seen) co_return std::unexpected(co_await explain_missing(*this, id, std::move(seen).error()));
  JsonObject request;
  request["timeout"] = shows_paused(*seen) ? woken_life_s : 1;
  auto answer = co_await call("POST", "/v2/sandboxes/" + id + "/connect", std::move(request));
  if (!answer) co_return std::unexpected(co_await explain_missing(*this, id, std::move(answer).error()));
  if (!answer->body.is_object()) co_return fail(Code::internal, "the API sent no sandbox");
  const JsonObject& sandbox = answer->body.get_object();
  SPACE_CO_TRY(auto token, text_member(sandbox, "envdAccessToken"));
  SPACE_CO_TRY(auto traffic_token, text_member(sandbox, "trafficAccessToken"));
  SPACE_CO_TRY(auto domain, text_member(sandbox, "domain"));
  co_return Target{id, SecretText(std::move(token).value_or("")),
                   SecretText(std::move(traffic_token).value_or("")), std::move(domain).value_or("")};
}

Task<Result<std::unique_ptr<http::ClientConnection>>> ApiClient::open_daemon(const Target& target,
                                                                             http::RequestHead head) const {
  head.fields.add("Host", fmt::format("{}:{}", settings_.host, settings_.port));
  head.fields.add("E2b-Sandbox-Id", target.sandbox_id);
  head.fields.add("E2b-Sandbox-Port", "49983");
  head.fields.add("X-Access-Token", target.access_token.reveal());
  SPACE_CO_TRY(StreamPtr stream, co_await dial(Deadline::after(dial_patience)));
  auto connection = std::make_unique<http::ClientConnection>(std::move(stream));
  SPACE_CO_CHECK(co_await connection->write_request(head));
  co_return connection;
}

Task<Result<JsonObject>> ApiClient::daemon_call(const Target& target, std::string procedure,
                                                JsonObject request, bool* sent, std::string user) const {
  const std::string body = to_text(request);
  http::RequestHead head = json_request("POST", std::move(procedure), body.size());
  head.fields.add("Connect-Protocol-Version", "1");
  if (!user.empty()) head.fields.add("Authorization", "Basic " + to_base64(as_bytes(user + ":")));
  SPACE_CO_TRY(auto connection, co_await open_daemon(target, std::move(head)));
  if (sent != nullptr) *sent = true;
  SPACE_CO_CHECK(co_await connection->write_body(as_bytes(body)));
  SPACE_CO_CHECK(co_await connection->end_request());
  SPACE_CO_TRY(const auto response, co_await connection->read_response(Deadline::after(answer_patience)));
  SPACE_CO_TRY(const std::string content, co_await http::read_all(connection->body(), answer_limit_bytes));
  auto value = parse_json(content.empty() ? "{}" : content);
  if (response.head.status != 200)
    co_return std::unexpected(error_of(response.head.status, value ? *value : Json()));
  if (!value || !value->is_object()) co_return fail(Code::internal, "the sandbox sent no JSON object");
  co_return std::move(value->get_object());
}

Task<Result<StreamPtr>> ApiClient::open_port(const Target& target, std::uint16_t port) const {
  http::RequestHead head;
  head.method = "GET";
  head.target = fmt::format("/v1/sandboxes/{}/tunnel?port={}", target.sandbox_id, port);
  head.fields.add("Host", fmt::format("{}:{}", settings_.host, settings_.port));
  head.fields.add("X-API-Key", settings_.api_key.reveal());
  head.fields.add("Connection", "Upgrade");
  head.fields.add("Upgrade", "tcp");
  SPACE_CO_TRY(StreamPtr stream, co_await dial(Deadline::after(dial_patience)));
  http::ClientConnection connection(std::move(stream));
  SPACE_CO_CHECK(co_await connection.write_request(head));
  SPACE_CO_CHECK(co_await connection.end_request());
  SPACE_CO_TRY(const auto response, co_await connection.read_response(Deadline::after(answer_patience)));
  if (response.head.status == 101) co_return connection.release();
  SPACE_CO_TRY(const std::string content, co_await http::read_all(connection.body(), 65536));
  const auto value = parse_json(content);
  co_return std::unexpected(error_of(response.head.status, value ? *value : Json()));
}

Result<ApiClient> make_client(const CommonOptions& common) {
  SPACE_TRY(Settings settings, load_settings(common.api_url, common.api_key));
  return ApiClient(std::move(settings));
}

}  // namespace space::cli
