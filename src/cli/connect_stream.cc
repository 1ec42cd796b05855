#include "cli/connect_stream.h"

#include "cli/process_events.h"

namespace space::cli {

namespace {

constexpr Millis answer_patience{60'000};

Task<Error> refusal_of(http::ClientConnection& connection, int status) {
  const auto text = co_await http::read_all(connection.body(), 65536);
  const auto object = parse_json_object(text ? *text : "", "answer");
  const auto message = object ? text_member(*object, "message") : Result<std::optional<std::string>>();
  co_return Error{Code::unavailable,
                  message && *message ? **message : fmt::format("the sandbox answered {}", status)};
}

}  // namespace

Task<Result<std::unique_ptr<ConnectStream>>> ConnectStream::open(const ApiClient& api, const Target& target,
                                                                 std::string procedure, JsonObject request,
                                                                 http::Fields fields) {
  const Bytes body = connect::envelope(0, to_text(request));
  http::RequestHead head;
  head.method = "POST";
  head.target = std::move(procedure);
  head.fields = std::move(fields);
  head.fields.add("Content-Type", "application/connect+json");
  head.fields.add("Connect-Protocol-Version", "1");
  head.content_length = body.size();
  SPACE_CO_TRY(auto connection, co_await api.open_daemon(target, std::move(head)));
  SPACE_CO_CHECK(co_await connection->write_body(body));
  SPACE_CO_CHECK(co_await connection->end_request());
  SPACE_CO_TRY(const auto response, co_await connection->read_response(Deadline::after(answer_patience)));
  if (response.head.status != 200)
    co_return std::unexpected(co_await refusal_of(*connection, response.head.status));
  co_return std::unique_ptr<ConnectStream>(new ConnectStream(std::move(connection)));
}

Task<Result<std::optional<std::string>>> ConnectStream::next(Millis silence) {
  while (true) {
    SPACE_CO_TRY(auto envelope, reader_.next());
    if (envelope && (envelope->flags & connect::flag_end_of_stream) == 0)
      co_return std::optional(std::move(envelope->payload));
    if (envelope) {
      SPACE_CO_CHECK(parse_end_of_stream(envelope->payload));
      co_return std::nullopt;
    }
    const std::span<std::byte> buffer(buffer_.get(), buffer_bytes);
    auto n =
        co_await with_deadline(connection_->body().read(buffer), Deadline::after(silence), "the next event");
    if (!n || *n == 0)
      co_return fail(Code::unavailable, "the connection to the sandbox ended early; was it killed?");
    reader_.feed(buffer.first(*n));
  }
}

}  // namespace space::cli
