#include "net/h2_session.h"

#include "net/h2_engine.h"

namespace space {
namespace {

constexpr std::size_t refusal_bytes_max = 1024;
constexpr std::string_view refused_role = "only the client's side opens streams";

class Client final : public H2Engine {
 public:
  Client(StreamPtr transport, H2Limits limits) : H2Engine(Role::client, std::move(transport), limits) {}

  Task<Result<CallResponse>> call(CallRequest request, Deadline deadline) override {
    const auto self = shared_from_this();
    SPACE_CO_CHECK(fits(request.path, request.body.size()));
    SPACE_CO_CHECK(co_await wait_for_slot(deadline));
    SPACE_CO_TRY(auto opened, open({{":method", request.method},
                                    {":scheme", "http"},
                                    {":path", request.path},
                                    {":authority", "space"}},
                                   request.body, false));
    ExchangeOwner exchange(std::move(opened));
    while (exchange->in == Exchange::Side::open)
      SPACE_CO_CHECK(co_await changed(*exchange, deadline, request.path));
    if (exchange->in == Exchange::Side::failed) co_return std::unexpected(exchange->error);
    co_return CallResponse{exchange->status, std::string(as_text(exchange->received.front()))};
  }

  Task<Result<OpeningTunnel>> open_tunnel(std::string authority, Deadline deadline) override {
    const auto self = shared_from_this();
    SPACE_CO_CHECK(fits(authority, 0));
    SPACE_CO_CHECK(co_await wait_for_slot(deadline));
    SPACE_CO_TRY(auto exchange, open({{":method", "CONNECT"}, {":authority", authority}}, {}, true));
    co_return OpeningTunnel{make_tunnel_stream(exchange),
                            [exchange](Deadline limit) { return accepted_by_peer(exchange, limit); }};
  }

 private:
  Result<void> fits(std::string_view head, std::size_t body_bytes) const {
    if (head.size() + 256 > limits().header_bytes_max || body_bytes > limits().call_body_bytes_max)
      return fail(Code::invalid_argument, "request too large");
    return {};
  }
  static Task<Result<void>> accepted_by_peer(ExchangePtr exchange, Deadline deadline) {
    while (exchange->status < 200 && exchange->in == Exchange::Side::open)
      SPACE_CO_CHECK(co_await changed(*exchange, deadline, "CONNECT"));
    if (exchange->in == Exchange::Side::failed) co_return std::unexpected(exchange->error);
    if (!exchange->refused()) co_return Result<void>();

    while (exchange->in == Exchange::Side::open && exchange->received.size() < refusal_bytes_max)
      SPACE_CO_CHECK(co_await changed(*exchange, deadline, "CONNECT"));
    const auto message = as_text(exchange->received.front()).substr(0, refusal_bytes_max);
    Error refusal{code_of_http_status(exchange->status), std::string(message)};
    if (const auto engine = exchange->engine.lock(); engine && exchange->in == Exchange::Side::ended) {
      // An orderly end costs the server less than a reset, of which it counts each.
      exchange->out = Exchange::Side::ended;
      engine->output_ready(*exchange);
    }
    co_return std::unexpected(std::move(refusal));
  }
  static Task<Result<void>> changed(Exchange& exchange, Deadline deadline, std::string_view what) {
    switch (co_await exchange.readable.wait(deadline)) {
      case Signal::Wake::notified:
        break;
      case Signal::Wake::timed_out:
        co_return fail(Code::deadline, "{}: no answer in time", what);
      case Signal::Wake::cancelled:
        co_return fail(Code::unavailable, "{}: cancelled", what);
    }
    co_return Result<void>();
  }

  void on_request(ExchangePtr) override {}  // nghttp2 lets no server open streams: push is off
};

class Server final : public H2Engine {
 public:
  Server(StreamPtr transport, H2Handlers handlers, H2Limits limits)
      : H2Engine(Role::server, std::move(transport), limits),
        handlers_(std::make_shared<H2Handlers>(std::move(handlers))) {}

  Task<Result<CallResponse>> call(CallRequest, Deadline) override {
    co_return fail(Code::internal, "{}", refused_role);
  }
  Task<Result<OpeningTunnel>> open_tunnel(std::string, Deadline) override {
    co_return fail(Code::internal, "{}", refused_role);
  }

 private:
  void on_request(ExchangePtr exchange) override {
    const bool tunnel = exchange->method == "CONNECT";
    if (!(tunnel ? bool(handlers_->connect) : bool(handlers_->call))) {
      return answer(*exchange, {http_status_of(Code::not_found), "not served here"});
    }
    // A stream's end frees its place before its handler is done: those count on their own.
    if (running_ >= limits().streams_max) {
      return answer(*exchange, {http_status_of(Code::exhausted), "too many requests under way"});
    }
    auto self = std::static_pointer_cast<Server>(shared_from_this());
    spawn(executor(), "h2 handler",
          tunnel ? serve_tunnel(self, std::move(exchange)) : serve_call(self, std::move(exchange)));
  }

  void answer(Exchange& exchange, const CallResponse& response) {
    exchange.discard = true;
    exchange.received.clear();
    respond(exchange, response.status, response.body, true);
  }

  struct Running {
    explicit Running(std::size_t& count) : count_(count) { ++count_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { --count_; }
    std::size_t& count_;
  };

  // The session lives as long as a decision is under way, not as long as its tunnels.
  static Task<void> serve_call(std::shared_ptr<Server> self, ExchangePtr exchange) {
    Running running(self->running_);
    CallRequest request{exchange->method, exchange->path, std::string(as_text(exchange->received.front()))};
    exchange->received.clear();
    CallResponse response = co_await self->handlers_->call(std::move(request));
    self->answer(*exchange, response);
  }

  static Task<void> serve_tunnel(std::shared_ptr<Server> self, ExchangePtr exchange) {
    H2Handlers::Tunnel tunnel;
    {
      Running running(self->running_);
      auto decision = co_await self->handlers_->connect(exchange->authority);
      if (!decision) {
        self->answer(*exchange, {http_status_of(decision.error().code), decision.error().message});
        co_return;
      }
      tunnel = *std::move(decision);
    }
    // A peer that has sent already does not wait for the answer: one write, one wake-up of it less.
    if (exchange->received.empty()) {
      self->respond(*exchange, 200, {}, false);
    } else {
      self->accept_later(*exchange);
    }
    self.reset();
    co_await tunnel(make_tunnel_stream(std::move(exchange)));
  }

  std::shared_ptr<H2Handlers> handlers_;
  std::size_t running_ = 0;
};

}  // namespace

Task<Result<StreamPtr>> H2Session::connect(std::string authority, Deadline deadline) {
  SPACE_CO_TRY(OpeningTunnel tunnel, co_await open_tunnel(std::move(authority), deadline));
  SPACE_CO_CHECK(co_await tunnel.accepted(deadline));
  co_return std::move(tunnel.stream);
}

std::shared_ptr<H2Session> H2Session::client(StreamPtr transport, H2Limits limits) {
  return std::make_shared<Client>(std::move(transport), limits);
}

std::shared_ptr<H2Session> H2Session::server(StreamPtr transport, H2Handlers handlers, H2Limits limits) {
  return std::make_shared<Server>(std::move(transport), std::move(handlers), limits);
}

int http_status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::permission_denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::exhausted:
      return 429;
    case Code::unavailable:
      return 502;
    case Code::deadline:
      return 504;
    case Code::internal:
      return 500;
  }
  return 500;
}

Code code_of_http_status(int status) {
  switch (status) {
    case 400:
      return Code::invalid_argument;
    case 401:
      return Code::unauthenticated;
    case 403:
      return Code::permission_denied;
    case 404:
      return Code::not_found;
    case 409:
      return Code::conflict;
    case 429:
      return Code::exhausted;
    case 502:
    case 503:
      return Code::unavailable;
    case 504:
      return Code::deadline;
    default:
      return Code::internal;
  }
}

}  // namespace space
