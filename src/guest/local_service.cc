#include "guest/local_service.h"

#include "base/json_text.h"
#include "guest/activity_json.h"
#include "net/h2_session.h"

namespace space::guest {

namespace {

constexpr std::size_t body_limit_bytes = 4096;
constexpr std::string_view leases_prefix = "/leases/";

std::string message_json(std::string_view message) {
  std::string body = R"({"message":)";
  append_json_string(body, message);
  return body + "}";
}

// {"at":RFC 3339} or {"after_seconds":N}, not both.
Result<Wall> wake_time(const JsonObject& message, Wall now) {
  SPACE_TRY(const auto at, text_member(message, "at"));
  SPACE_TRY(const auto after_s, int_member(message, "after_seconds", 1, std::int64_t{1} << 32));
  if (at.has_value() == after_s.has_value())
    return fail(Code::invalid_argument, R"(give {{"at":RFC 3339 time}} or {{"after_seconds":N}})");
  if (after_s) return now + std::chrono::seconds(*after_s);
  const auto time = parse_rfc3339(*at);
  if (!time) return fail(Code::invalid_argument, "'at' must be a time like 2026-01-31T12:00:00Z");
  return *time;
}

}  // namespace

Task<void> LocalService::serve(StreamPtr stream) {
  http::ServerConnection connection(std::move(stream));
  for (;;) {
    const auto request = co_await connection.read_request(Deadline::after(patience_));
    if (!request || !*request) co_return;
    const http::RequestHead head = **request;
    const auto body = co_await with_deadline(http::read_all(connection.body(), body_limit_bytes),
                                             Deadline::after(patience_), "the request");
    const auto result =
        body ? answer(head, *body) : Result<Answer>(fail(Code::invalid_argument, "{}", body.error().message));
    http::ResponseHead response;
    response.status = result ? result->status : http_status_of(result.error().code);
    response.fields.add("Content-Type", "application/json");
    const std::string text = result ? result->body : message_json(result.error().message);
    const auto sent = co_await with_deadline(connection.respond(std::move(response), text),
                                             Deadline::after(patience_), "the answer");
    if (!sent || !body || !head.keep_alive) co_return;
  }
}

Result<LocalService::Answer> LocalService::answer(const http::RequestHead& head, std::string_view body) {
  const std::string_view path = head.path();
  if (path == "/activity" && head.method == "GET") {
    SPACE_TRY(const JsonObject activity, activity_());
    return Answer{200, to_text(activity)};
  }
  if (path == "/leases" && head.method == "GET")
    return Answer{200, to_text(JsonObject{{"leases", leases_json(state_)}})};
  if (path.starts_with(leases_prefix)) return leases(head, path.substr(leases_prefix.size()), body);
  if (path == "/wake") return wake(head, body);
  return fail(Code::not_found, "PUT or DELETE /leases/NAME or /wake; GET /leases or /activity");
}

Result<LocalService::Answer> LocalService::leases(const http::RequestHead& head, std::string_view name,
                                                  std::string_view body) {
  if (head.method == "DELETE") {
    state_.leases.remove(name);
    return Answer{204, ""};
  }
  if (head.method != "PUT") return fail(Code::not_found, "use PUT or DELETE");
  SPACE_TRY(const JsonObject message, parse_json_object(body, "the request"));
  SPACE_TRY(const std::int64_t seconds, require_int(message, "seconds", 1, Leases::time_max.count()));
  SPACE_CHECK(state_.leases.put(name, std::chrono::seconds(seconds), system_clock().monotonic()));
  return Answer{204, ""};
}

Result<LocalService::Answer> LocalService::wake(const http::RequestHead& head, std::string_view body) {
  if (head.method == "DELETE") {
    state_.wake_up.clear();
    return Answer{204, ""};
  }
  if (head.method != "PUT") return fail(Code::not_found, "use PUT or DELETE");
  SPACE_TRY(const JsonObject message, parse_json_object(body, "the request"));
  const Wall now = system_clock().wall();
  SPACE_TRY(const Wall at, wake_time(message, now));
  SPACE_CHECK(state_.wake_up.set(at, now));
  return Answer{200, to_text(JsonObject{{"at", to_rfc3339(at)}})};
}

}  // namespace space::guest
