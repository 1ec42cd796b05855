// Serving any client's HTTP requests over an H2Engine: every stream is an http::ServerExchange.
#include "net/h2_engine.h"
#include "net/h2_head.h"

namespace space {
namespace {

// One stream. Its owner is the coroutine that runs the handler.
class HttpExchange final : public http::ServerExchange {
 public:
  HttpExchange(ExchangePtr exchange, const http::RequestHead& head)
      : exchange_(std::move(exchange)),
        to_head_(head.method == "HEAD"),
        expects_continue_(head.has_body() && head.fields.has_token("Expect", "100-continue")) {}
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;
  ~HttpExchange() override {
    const auto engine = exchange_->engine.lock();
    if (exchange_->out == Exchange::Side::open) {
      HttpExchange::abort();
    } else if (engine) {
      engine->abandon(*exchange_);
    }
  }

  http::Body& body() override { return body_; }

  Task<Result<void>> respond(http::ResponseHead head, std::string_view body) override {
    const auto length = to_head_ && head.content_length ? *head.content_length : body.size();
    SPACE_CO_CHECK(open_response(head, length));
    co_return co_await end_response(as_bytes(body));
  }
  Task<Result<void>> start_response(http::ResponseHead head, std::span<const std::byte> first) override {
    SPACE_CO_CHECK(open_response(head, head.content_length));
    co_return co_await write_body(first);
  }
  Task<Result<void>> write_body(std::span<const std::byte> bytes) override {
    if (!under_way_) co_return fail(Code::internal, "body without a head");
    if (without_body_) bytes = {};
    if (left_ && bytes.size() > *left_) co_return fail(Code::internal, "body is longer than announced");
    if (left_) *left_ -= bytes.size();
    co_return co_await write_output(exchange_, bytes);
  }
  Task<Result<void>> end_response(std::span<const std::byte> last) override {
    SPACE_CO_CHECK(co_await write_body(last));
    if (left_.value_or(0) > 0) co_return fail(Code::internal, "body is shorter than announced");
    under_way_ = false;
    co_return end_output(*exchange_);
  }
  void abort() noexcept override {
    // Not CANCEL, which some clients take for an end like any other.
    if (const auto engine = exchange_->engine.lock()) engine->reset(*exchange_, NGHTTP2_INTERNAL_ERROR);
  }
  Task<void> peer_gone() override { return gone(exchange_); }
  StreamPtr release() override { return nullptr; }  // 101 is not sent
  bool peer_is_loopback() const override {
    const auto engine = exchange_->engine.lock();
    return engine && engine->peer_is_loopback();
  }

 private:
  class RequestBody final : public http::Body {
   public:
    explicit RequestBody(HttpExchange& owner) : owner_(owner) {}
    Task<Result<std::size_t>> read(std::span<std::byte> into) override {
      owner_.ask_for_body();
      return read_input(owner_.exchange_, into);
    }
    bool done() const override {
      return owner_.exchange_->in == Exchange::Side::ended && owner_.exchange_->received.empty();
    }
    bool at_hand() const override { return !owner_.exchange_->received.empty(); }

   private:
    HttpExchange& owner_;
  };

  static Task<void> gone(ExchangePtr exchange) {
    while (exchange->out != Exchange::Side::failed && !exchange->closed)
      co_await exchange->readable.wait(no_deadline());
  }

  void ask_for_body() {
    if (!std::exchange(expects_continue_, false) || !exchange_->received.empty()) return;
    if (const auto engine = exchange_->engine.lock())
      engine->send_head(*exchange_, {{":status", "100"}}, H2Engine::Head::interim);
  }

  Result<void> open_response(const http::ResponseHead& head, std::optional<std::uint64_t> length) {
    if (exchange_->out == Exchange::Side::failed) return std::unexpected(exchange_->error);
    if (under_way_ || exchange_->out != Exchange::Side::open)
      return fail(Code::internal, "a response is already under way");
    const bool bodiless = head.status == 204 || head.status == 304;
    if (bodiless) length = head.status == 304 ? head.content_length : std::nullopt;
    SPACE_TRY(const H2Fields fields, to_h2_fields(head, length));
    under_way_ = true;
    expects_continue_ = false;
    without_body_ = bodiless || to_head_;
    left_ = without_body_ ? std::nullopt : length;
    const bool last = without_body_ || left_ == 0;
    if (const auto engine = exchange_->engine.lock())
      engine->send_head(*exchange_, {fields.begin(), fields.end()},
                        last ? H2Engine::Head::final_without_body : H2Engine::Head::final);
    if (last) exchange_->out = Exchange::Side::ended;
    return {};
  }

  ExchangePtr exchange_;
  RequestBody body_{*this};
  bool to_head_;
  bool expects_continue_;  // and has not been told to
  bool under_way_ = false;
  bool without_body_ = false;
  std::optional<std::uint64_t> left_;  // of the length announced
};

class HttpServer final : public H2Engine {
 public:
  HttpServer(StreamPtr transport, http::ServerHandlers handlers, Millis idle, H2Limits limits)
      : H2Engine(Role::server, std::move(transport), limits),
        handlers_(std::make_shared<http::ServerHandlers>(std::move(handlers))),
        idle_(idle) {}

  Task<Result<CallResponse>> call(CallRequest, Deadline) override {
    co_return fail(Code::internal, "only the client's side opens streams");
  }
  Task<Result<OpeningTunnel>> open_tunnel(std::string, Deadline) override {
    co_return fail(Code::internal, "only the client's side opens streams");
  }

 private:
  void on_start() override {
    spawn(executor(), "h2 idle", retire_when_idle(std::static_pointer_cast<HttpServer>(shared_from_this())));
  }
  static Task<void> retire_when_idle(std::shared_ptr<HttpServer> self) {
    while (!self->closed()) {
      const Deadline limit = self->open_streams() == 0 ? Deadline::after(self->idle_) : no_deadline();
      const auto wake = co_await self->stream_closed().wait(limit);
      if (wake == Signal::Wake::timed_out && self->open_streams() == 0) self->retire();
    }
  }

  void on_request_begin(Exchange& exchange) override {
    exchange.streamed = true;
    exchange.fields.emplace();
  }

  void on_request(ExchangePtr exchange) override {
    if (exchange->in == Exchange::Side::failed) return;
    // A stream's end frees its place before its handler is done: those count on their own. An honest client
    // may be a little ahead of them.
    if (running_ >= 2 * std::size_t{limits().streams_max}) return reset(*exchange, NGHTTP2_REFUSED_STREAM);
    spawn(executor(), "http exchange",
          serve(std::static_pointer_cast<HttpServer>(shared_from_this()), std::move(exchange)));
  }

  static Task<void> serve(std::shared_ptr<HttpServer> self, ExchangePtr exchange) {
    ++self->running_;
    {
      const bool ended = exchange->in == Exchange::Side::ended && exchange->received.empty();
      Result<http::RequestHead> head =
          exchange->header_bytes > http::head_limit_bytes
              ? fail(Code::exhausted, "head is larger than {} bytes", http::head_limit_bytes)
              : to_request_head({.method = std::move(exchange->method),
                                 .path = std::move(exchange->path),
                                 .authority = std::move(exchange->authority),
                                 .fields = *std::move(exchange->fields),
                                 .ended = ended});
      exchange->fields.reset();
      HttpExchange client(std::move(exchange), head.value_or(http::RequestHead()));
      if (head) {
        co_await self->handlers_->request(client, *std::move(head));
      } else {
        co_await self->handlers_->malformed(client, std::move(head).error());
      }
    }
    --self->running_;
  }

  std::shared_ptr<http::ServerHandlers> handlers_;
  Millis idle_;
  std::size_t running_ = 0;
};

}  // namespace

std::shared_ptr<H2Session> H2Session::http_server(StreamPtr transport, http::ServerHandlers handlers,
                                                  Millis idle, H2Limits limits) {
  return std::make_shared<HttpServer>(std::move(transport), std::move(handlers), idle, limits);
}

}  // namespace space
