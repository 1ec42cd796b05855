#include "guest/files.h"

#include "base/path_text.h"
#include "core/file_signature.h"
#include "guest/file_compose.h"
#include "guest/file_download.h"
#include "guest/file_io.h"
#include "guest/file_upload.h"

namespace space::guest {

namespace {

constexpr std::size_t compose_body_max = 1024 * 1024;

struct ComposeRequest {
  std::vector<std::string> sources;
  std::string destination;
  std::string username;
};

Result<ComposeRequest> parse_compose(std::string_view body) {
  SPACE_TRY(const JsonObject object, parse_json_object(body, "the request"));
  ComposeRequest request;
  SPACE_TRY(request.destination, require_text(object, "destination"));
  SPACE_TRY(auto username, text_member(object, "username"));
  request.username = std::move(username).value_or("");
  SPACE_TRY(const JsonArray* sources, array_member(object, "source_paths"));
  if (!sources || sources->empty())
    return fail(Code::invalid_argument, "'source_paths' must name at least one file");
  for (const Json& source : *sources) {
    if (!source.is_string()) return fail(Code::invalid_argument, "'source_paths' must hold texts only");
    request.sources.emplace_back(source.get_string());
  }
  return request;
}

Task<void> respond_failure(Exchange exchange, Error error) {
  co_await exchange.respond_error(file_error_status(error), std::move(error.message));
}

}  // namespace

Result<User> FileService::user_called(std::string_view name) {
  return state_.users.find(name.empty() ? std::string_view(state_.default_user) : name);
}

Result<User> FileService::user_of(const Exchange& exchange) {
  return user_called(http::query_value(exchange.head.query(), "username").value_or(""));
}

Task<void> FileService::read(Exchange exchange) {
  const auto user = user_of(exchange);
  if (!user) co_return co_await respond_failure(exchange, user.error());
  const std::string wanted = path_of_text(http::query_value(exchange.head.query(), "path").value_or(""));
  auto path = resolve_path(wanted, *user, state_.default_workdir);
  if (!path) co_return co_await respond_failure(exchange, path.error());
  co_await send_file(exchange, *std::move(path));
}

Task<void> FileService::write(Exchange exchange) {
  auto user = user_of(exchange);
  if (!user) co_return co_await respond_failure(exchange, user.error());
  auto options = read_upload_options(exchange.head);
  if (!options && options.error().code == Code::conflict)
    co_return co_await exchange.respond_error(415, options.error().message);
  if (!options) co_return co_await respond_failure(exchange, options.error());
  options->user = *std::move(user);
  options->default_workdir = state_.default_workdir;
  auto answer = co_await receive_files(exchange.connection.body(), *std::move(options));
  if (!answer) co_return co_await respond_failure(exchange, answer.error());
  co_await exchange.respond(200, "application/json", *std::move(answer));
}

Task<void> FileService::compose(Exchange exchange) {
  const auto body = co_await http::read_all(exchange.connection.body(), compose_body_max);
  if (!body && body.error().code == Code::exhausted)
    co_return co_await exchange.respond_error(413, body.error().message);
  if (!body) co_return co_await respond_failure(exchange, body.error());
  auto request = parse_compose(*body);
  if (!request) co_return co_await respond_failure(exchange, request.error());
  const auto user = user_called(request->username);
  if (!user) co_return co_await respond_failure(exchange, user.error());
  const auto resolve = [&](std::string_view path) {
    return resolve_path(path_of_text(path), *user, state_.default_workdir);
  };
  const auto destination = resolve(request->destination);
  if (!destination) co_return co_await respond_failure(exchange, destination.error());
  for (std::string& source : request->sources) {
    auto path = resolve(source);
    if (!path) co_return co_await respond_failure(exchange, path.error());
    source = *std::move(path);
  }
  const auto composed = co_await compose_files(std::move(request->sources), *destination, *user);
  if (!composed) co_return co_await respond_failure(exchange, composed.error());
  co_await exchange.respond(200, "application/json", to_text(written_file_json(*destination, {})));
}

std::optional<std::string> file_access_refusal(const http::RequestHead& head, std::string_view token,
                                               std::int64_t now_seconds) {
  if (token.empty()) return std::nullopt;
  if (const auto given = head.fields.get("X-Access-Token")) {
    if (equal_in_constant_time(*given, token)) return std::nullopt;
    return "access token present in header but does not match";
  }
  const auto value = [&](std::string_view name) {
    return http::query_value(head.query(), name).value_or("");
  };
  const bool reads = head.method == "GET" || head.method == "HEAD";
  const SignedFileRequest request{.operation = reads ? FileOperation::read : FileOperation::write,
                                  .path = value("path"),
                                  .username = value("username"),
                                  .signature = value("signature"),
                                  .expiration = value("signature_expiration")};
  if (request.signature.empty()) return "missing signature query parameter";
  if (!FileSignature(request).made_with(token)) return "invalid signature";
  if (has_expired(request, now_seconds)) return "signature is already expired";
  return std::nullopt;
}

}  // namespace space::guest
