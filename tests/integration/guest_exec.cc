#include "tests/integration/guest_exec.h"

#include <array>

#include "net/connect.h"

namespace space {
namespace {

Result<void> take_event(const connect::Envelope& envelope, GuestOutput& out) {
  SPACE_TRY(const JsonObject message, parse_json_object(envelope.payload, "process event"));
  if (envelope.flags & connect::flag_end_of_stream) {
    if (message.contains("error")) return fail(Code::internal, "{}", envelope.payload);
    return {};
  }
  SPACE_TRY(const JsonObject* event, object_member(message, "event"));
  if (event == nullptr) return fail(Code::internal, "no event in {}", envelope.payload);
  SPACE_TRY(const JsonObject* data, object_member(*event, "data"));
  if (data != nullptr) {
    SPACE_TRY(const auto text, text_member(*data, "stdout"));
    const auto bytes = from_base64(text.value_or(""));
    if (bytes) out.output += as_text(*bytes);
  }
  SPACE_TRY(const JsonObject* end, object_member(*event, "end"));
  if (end != nullptr) {
    SPACE_TRY(const auto code, int_member(*end, "exitCode", -1, 255));
    out.exit_code = static_cast<int>(code.value_or(0));
  }
  return {};
}

Task<Result<GuestOutput>> read_output(http::Body& body) {
  GuestOutput out;
  connect::EnvelopeReader reader;
  std::array<std::byte, 16384> chunk;
  while (true) {
    SPACE_CO_TRY(const auto count, co_await body.read(chunk));
    if (count == 0) co_return out;
    reader.feed(std::span(chunk).first(count));
    while (true) {
      SPACE_CO_TRY(const auto envelope, reader.next());
      if (!envelope) break;
      SPACE_CO_CHECK(take_event(*envelope, out));
    }
  }
}

Task<Result<GuestOutput>> exchange(http::ClientConnection& connection, http::RequestHead head,
                                   std::string body, Deadline deadline) {
  SPACE_CO_CHECK(co_await connection.write_request(head));
  SPACE_CO_CHECK(co_await connection.write_body(as_bytes(body)));
  SPACE_CO_CHECK(co_await connection.end_request());
  SPACE_CO_TRY(const auto response, co_await connection.read_response(deadline));
  if (response.head.status == 200) co_return co_await read_output(connection.body());
  SPACE_CO_TRY(const auto text, co_await http::read_all(connection.body(), 4096));
  co_return fail(Code::internal, "HTTP {}: {}", response.head.status, text);
}

}  // namespace

http::RequestHead start_request_head(std::size_t body_bytes) {
  http::RequestHead head;
  head.method = "POST";
  head.target = "/process.Process/Start";
  head.fields.add("Host", "localhost");
  head.fields.add("Content-Type", "application/connect+json");
  head.fields.add("Connect-Protocol-Version", "1");
  head.content_length = body_bytes;
  return head;
}

std::string start_request_body(const std::vector<std::string>& argv) {
  JsonArray args;
  for (std::size_t i = 1; i < argv.size(); ++i) args.emplace_back(argv[i]);
  const JsonObject request{{"process", {{"cmd", argv.at(0)}, {"args", std::move(args)}}}, {"stdin", false}};
  return std::string(as_text(connect::envelope(0, to_text(request))));
}

Task<Result<GuestOutput>> run_process(http::ClientConnection& connection, http::RequestHead head,
                                      std::string body, Deadline deadline) {
  return with_deadline(exchange(connection, std::move(head), std::move(body), deadline), deadline,
                       "a program's run");
}

Task<Result<GuestOutput>> run_in_guest(std::shared_ptr<H2Session> session, std::vector<std::string> argv,
                                       Deadline deadline) {
  SPACE_CO_TRY(OpeningTunnel tunnel, co_await session->open_tunnel("localhost:49983", deadline));
  http::ClientConnection connection(std::move(tunnel.stream));
  std::string body = start_request_body(argv);
  co_return co_await run_process(connection, start_request_head(body.size()), std::move(body), deadline);
}

}  // namespace space
