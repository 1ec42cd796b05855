#include "net/http_io.h"
#include "net/http_text.h"

namespace space::http {
namespace {

Task<Result<void>> answer(Result<void> result) {
  co_return result;
}

}  // namespace

struct ClientConnection::Impl {
  explicit Impl(StreamPtr s) : stream(std::move(s)), input(*stream), body(input), writer(*stream) {}

  Task<Result<Response>> next_response();

  StreamPtr stream;
  Input input;
  BodyReader body;
  MessageWriter writer;
  std::string method;  // of the request sent last
};

ClientConnection::ClientConnection(StreamPtr stream) : impl_(std::make_unique<Impl>(std::move(stream))) {}
ClientConnection::~ClientConnection() = default;

// Not a coroutine: `head` is read before this returns and may be a temporary.
Task<Result<void>> ClientConnection::write_request(const RequestHead& head) {
  MessageWriter& writer = impl_->writer;
  if (writer.under_way()) return answer(fail(Code::internal, "a request is already under way"));
  if (auto composed = append_request_head(writer.head(), head); !composed) return answer(std::move(composed));
  impl_->method = head.method;
  if (head.has_body() && !head.chunked) {
    writer.start(Framing::length, *head.content_length);
    return answer({});  // leaves with the first piece of the body
  }
  writer.start(head.chunked ? Framing::chunked : Framing::none, 0);
  return writer.flush();
}

Task<Result<void>> ClientConnection::write_body(std::span<const std::byte> bytes) {
  return impl_->writer.write(bytes);
}

Task<Result<void>> ClientConnection::end_request() {
  return impl_->writer.end();
}

Task<Result<ClientConnection::Response>> ClientConnection::Impl::next_response() {
  while (true) {
    SPACE_CO_TRY(const auto span, co_await input.find_head());
    if (!span) co_return fail(Code::unavailable, "the connection ended before a response");
    auto parsed = parse_response_head(input.pending().substr(span->begin, span->end - span->begin), method);
    input.consume(span->end);
    if (!parsed) co_return std::unexpected(std::move(parsed).error());
    if (parsed->head.status / 100 == 1 && parsed->head.status != 101) continue;
    body.start(parsed->framing, parsed->head.content_length.value_or(0));
    co_return Response{std::move(parsed->head), parsed->keep_alive, parsed->chunked};
  }
}

Task<Result<ClientConnection::Response>> ClientConnection::read_response(Deadline deadline) {
  co_return co_await with_deadline(impl_->next_response(), deadline, "waiting for a response");
}

Body& ClientConnection::body() {
  return impl_->body;
}

StreamPtr ClientConnection::release() {
  return with_prefix(std::move(impl_->stream), impl_->input.take_pending());
}

void ClientConnection::abort() noexcept {
  if (impl_->stream) impl_->stream->reset();
}

}  // namespace space::http
