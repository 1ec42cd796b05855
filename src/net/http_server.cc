#include <array>

#include "net/http_io.h"
#include "net/http_text.h"

namespace space::http {
namespace {

constexpr std::size_t drain_limit_bytes = 1024 * 1024;
constexpr Millis drain_patience(5000);
constexpr Millis linger_patience(2000);
// What HTTP/1.1 would take for the client's first head (RFC 9113, 3.4). The rest is the session's to check.
constexpr std::string_view http2_greeting = "PRI * HTTP/2.0\r\n\r\n";

Task<Result<void>> read_to_end(Stream& stream) {
  std::array<std::byte, 16 * 1024> scratch;
  while (true) {
    SPACE_CO_TRY(const std::size_t n, co_await stream.read(scratch));
    if (n == 0) co_return Result<void>{};
  }
}

// Closing at once while the client still sends would make TCP throw away the end of our answer with a RST.
Task<void> linger(StreamPtr stream) {
  if (!co_await stream->finish()) co_return;
  (void)co_await with_deadline(read_to_end(*stream), Deadline::after(linger_patience), "linger");
}

}  // namespace

struct ServerConnection::Impl {
  explicit Impl(StreamPtr s) : stream(std::move(s)), input(*stream), body(input), writer(*stream) {}

  // The body as the handler sees it: reading it is what asks the client to send it.
  class RequestBody final : public Body {
   public:
    explicit RequestBody(Impl& impl) : impl_(impl) {}
    Task<Result<std::size_t>> read(std::span<std::byte> into) override {
      if (std::exchange(impl_.expects_continue, false) && impl_.input.pending().empty()) {
        SPACE_CO_CHECK(co_await impl_.stream->write(as_bytes("HTTP/1.1 100 Continue\r\n\r\n")));
      }
      co_return co_await impl_.body.read(into);
    }

    bool done() const override { return impl_.body.done(); }
    bool at_hand() const override { return impl_.body.at_hand(); }

   private:
    Impl& impl_;
  };

  Task<Result<std::optional<RequestHead>>> next_request();
  Task<Result<void>> drain();
  Result<void> open_response(const ResponseHead& head, std::optional<std::uint64_t> length);
  Task<Result<void>> sent(Result<void> result);

  StreamPtr stream;
  Input input;
  BodyReader body;
  MessageWriter writer;
  RequestBody request_body{*this};
  std::optional<Executor> executor;
  bool http_1_1 = true;
  bool to_head = false;           // the request is HEAD
  bool expects_continue = false;  // and has not been told to
  bool closing = false;           // no further request is read
  bool greeted = false;           // the connection's first head was read
  bool speaks_http2 = false;
};

ServerConnection::ServerConnection(StreamPtr stream) : impl_(std::make_unique<Impl>(std::move(stream))) {}

ServerConnection::~ServerConnection() {
  const bool clean = impl_->stream && impl_->executor && !impl_->writer.under_way() && !impl_->input.failed();
  if (clean) spawn(*impl_->executor, "http linger", linger(std::move(impl_->stream)));
}

Task<Result<std::optional<RequestHead>>> ServerConnection::Impl::next_request() {
  SPACE_CO_TRY(const auto span, co_await input.find_head());
  if (!span) co_return std::nullopt;
  if (std::exchange(greeted, true) == false && input.pending().starts_with(http2_greeting)) {
    speaks_http2 = closing = true;
    co_return RequestHead{.method = "PRI", .target = "*", .fields = {}};
  }
  auto request = parse_request_head(input.pending().substr(span->begin, span->end - span->begin));
  input.consume(span->end);
  if (!request) co_return std::unexpected(std::move(request).error());
  http_1_1 = request->http_1_1;
  to_head = request->head.method == "HEAD";
  expects_continue = request->expects_continue;
  closing = !request->head.keep_alive;
  body.start(request->framing, request->head.content_length.value_or(0));
  co_return std::move(request->head);
}

Task<Result<std::optional<RequestHead>>> ServerConnection::read_request(Deadline idle) {
  impl_->executor = co_await boost::asio::this_coro::executor;
  if (impl_->writer.under_way()) co_return fail(Code::internal, "a response is still under way");
  SPACE_CO_CHECK(co_await drain_request());
  if (impl_->closing) co_return std::nullopt;
  auto request = co_await with_deadline(impl_->next_request(), idle, "waiting for a request");
  if (!request) impl_->closing = true;
  co_return request;
}

bool ServerConnection::speaks_http2() const {
  return impl_->speaks_http2;
}

Body& ServerConnection::body() {
  return impl_->request_body;
}

Task<Result<void>> ServerConnection::Impl::drain() {
  std::array<std::byte, 16 * 1024> scratch;
  std::size_t dropped = 0;
  while (!body.done() && dropped <= drain_limit_bytes) {
    SPACE_CO_TRY(const std::size_t n, co_await body.read(scratch));
    dropped += n;
  }
  co_return Result<void>{};
}

Task<Result<void>> ServerConnection::drain_request() {
  if (impl_->body.done() || impl_->closing) co_return Result<void>{};
  // A client that was not told to continue may send its body or may not: nobody can tell what comes next.
  if (!impl_->expects_continue) {
    (void)co_await with_deadline(impl_->drain(), Deadline::after(drain_patience), "reading a request body");
  }
  if (!impl_->body.done()) impl_->closing = true;
  co_return Result<void>{};
}

// Composes the head; decides how the body is framed and whether the connection outlives the answer.
Result<void> ServerConnection::Impl::open_response(const ResponseHead& head,
                                                   std::optional<std::uint64_t> length) {
  if (writer.under_way()) return fail(Code::internal, "a response is already under way");
  const bool switching = head.status == 101;
  const bool bodiless = head.status / 100 == 1 || head.status == 204 || head.status == 304;
  const bool chunked = !bodiless && !length && http_1_1;
  if (std::exchange(expects_continue, false)) closing = true;
  if (!bodiless && !length && !http_1_1) closing = true;  // the end of the body is the end of the connection
  if (head.fields.has_token("Connection", "close")) closing = true;
  if (bodiless) length = head.status == 304 ? head.content_length : std::nullopt;
  const ResponseFraming framing{.content_length = length, .chunked = chunked, .close = closing && !switching};
  SPACE_CHECK(append_response_head(writer.head(), head, framing));
  if (bodiless || to_head) {
    writer.start(Framing::none, 0);
  } else {
    writer.start(chunked  ? Framing::chunked
                 : length ? Framing::length
                          : Framing::until_close,
                 length.value_or(0));
  }
  return {};
}

// After the last byte of a response: the client of a closing connection reads its end now.
Task<Result<void>> ServerConnection::Impl::sent(Result<void> result) {
  if (!result) closing = true;
  if (result && closing) co_return co_await stream->finish();
  co_return result;
}

Task<Result<void>> ServerConnection::respond(ResponseHead head, std::string_view body) {
  const auto length = impl_->to_head && head.content_length ? *head.content_length : body.size();
  SPACE_CO_CHECK(impl_->open_response(head, length));
  const bool switching = head.status == 101;
  auto result = co_await impl_->writer.write(as_bytes(body));
  if (result) result = co_await impl_->writer.end();
  if (switching) co_return result;
  co_return co_await impl_->sent(std::move(result));
}

Task<Result<void>> ServerConnection::start_response(ResponseHead head, std::span<const std::byte> first) {
  SPACE_CO_CHECK(impl_->open_response(head, head.content_length));
  co_return co_await impl_->writer.write(first);
}

Task<Result<void>> ServerConnection::write_body(std::span<const std::byte> bytes) {
  return impl_->writer.write(bytes);
}

Task<Result<void>> ServerConnection::end_response(std::span<const std::byte> last) {
  co_return co_await impl_->sent(co_await impl_->writer.end(last));
}

void ServerConnection::abort() noexcept {
  impl_->closing = true;
  if (impl_->stream) impl_->stream->reset();
}

StreamPtr ServerConnection::release() {
  impl_->closing = true;
  return with_prefix(std::move(impl_->stream), impl_->input.take_pending());
}

bool ServerConnection::peer_is_loopback() const {
  return impl_->stream && impl_->stream->peer_is_loopback();
}

Task<void> ServerConnection::peer_gone() {
  return impl_->input.wait_until_over();
}

}  // namespace space::http
