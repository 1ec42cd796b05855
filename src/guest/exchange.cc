#include "guest/exchange.h"

#include <array>
#include <charconv>

#include "base/json_text.h"

namespace space::guest {

namespace {

constexpr std::string_view exposed_fields =
    "Location, Cache-Control, X-Content-Type-Options, Content-Encoding, Content-Disposition, Content-Range, "
    "Accept-Ranges, ETag, "
    "Connect-Content-Encoding, "
    "Connect-Accept-Encoding";

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

connect::RpcError to_rpc(const Error& error) {
  return {connect::rpc_code(error.code), error.message};
}

http::ResponseHead Exchange::answer(int status, std::string_view content_type) const {
  http::ResponseHead result{.status = status};
  if (!content_type.empty()) result.fields.add("Content-Type", content_type);
  if (head.fields.get("Origin")) {
    result.fields.add("Access-Control-Allow-Origin", "*");
    result.fields.add("Access-Control-Expose-Headers", exposed_fields);
  }
  return result;
}

Task<void> Exchange::respond(int status, std::string_view content_type, std::string body) {
  (void)co_await connection.respond(answer(status, content_type), body);
}

Task<void> Exchange::respond_error(int status, std::string message) {
  std::string body = fmt::format(R"({{"code":{},"message":)", status);
  append_json_string(body, message);
  co_await respond(status, "application/json", body + "}");
}

Task<RpcResult<JsonObject>> Exchange::read_message() {
  const auto body = co_await http::read_all(connection.body(), connect::envelope_limit_bytes);
  if (!body) co_return std::unexpected(to_rpc(body.error()));
  if (body->empty()) co_return JsonObject();
  auto message = parse_json_object(*body, "the request");
  if (!message) co_return std::unexpected(to_rpc(message.error()));
  co_return *std::move(message);
}

Task<void> Exchange::respond_rpc(RpcResult<std::string> result) {
  if (result) {
    co_await respond(200, "application/json", *std::move(result));
  } else {
    co_await respond(connect::http_status(result.error().code), "application/json",
                     connect::unary_error_body(result.error()));
  }
}

Task<RpcResult<JsonObject>> Exchange::read_single_envelope() {
  const auto malformed = [](std::string message) {
    return std::unexpected(connect::RpcError{connect::RpcCode::invalid_argument, std::move(message)});
  };
  connect::EnvelopeReader reader;
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    auto envelope = reader.next();
    if (!envelope) co_return std::unexpected(to_rpc(envelope.error()));
    if (*envelope) {
      auto message = parse_json_object((*envelope)->payload, "the request");
      if (!message) co_return std::unexpected(to_rpc(message.error()));
      co_return *std::move(message);
    }
    const auto count = co_await connection.body().read(buffer);
    if (!count) co_return std::unexpected(to_rpc(count.error()));
    if (*count == 0) co_return malformed("the request holds no complete message");
    reader.feed(std::span(buffer).first(*count));
  }
}

Task<void> Exchange::respond_stream_error(connect::RpcError error) {
  co_await respond(200, "application/connect+json", std::string(as_text(connect::end_of_stream(error))));
}

Result<std::optional<std::string>> basic_user(const http::RequestHead& head) {
  const auto field = head.fields.get("Authorization");
  if (!field) return std::optional<std::string>();
  const std::size_t space = field->find(' ');
  const bool basic = space == 5 && (field->starts_with("Basic") || field->starts_with("basic"));
  if (!basic) return std::optional<std::string>();  // another scheme is not about the user
  const auto decoded = from_base64(field->substr(space + 1));
  const std::string_view text = decoded ? as_text(*decoded) : std::string_view();
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return fail(Code::unauthenticated, "the Authorization field holds no user name");
  return std::optional(std::string(text.substr(0, colon)));
}

Result<std::optional<Millis>> timeout_of(const http::RequestHead& head) {
  const auto field = head.fields.get("Connect-Timeout-Ms");
  if (!field) return std::optional<Millis>();
  const auto value = parse_number<std::uint64_t>(*field);
  constexpr std::uint64_t longest = 9'999'999'999;  // the protocol's ten digits
  if (!value || *value > longest)
    return fail(Code::invalid_argument, "Connect-Timeout-Ms must be a number of milliseconds");
  if (*value == 0) return std::optional<Millis>();
  return std::optional(Millis(static_cast<std::int64_t>(*value)));
}

Millis keepalive_of(const http::RequestHead& head) {
  const auto field = head.fields.get("Keepalive-Ping-Interval");
  const auto seconds = field ? parse_number<std::uint32_t>(*field) : std::nullopt;
  return Millis(1000) * (seconds && *seconds > 0 ? *seconds : 90);
}

}  // namespace space::guest
