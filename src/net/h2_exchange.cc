#include "net/h2_exchange.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "net/h2_engine.h"

namespace space {
namespace asio = boost::asio;

// A coroutine's place in the list, left however the wait ends (also when the coroutine is destroyed).
class Signal::Waiter {
 public:
  Waiter(Signal& signal, asio::steady_timer& timer) : signal_(signal), timer_(timer) {
    signal_.waiters_.push_back(&timer_);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { std::erase(signal_.waiters_, &timer_); }

 private:
  Signal& signal_;
  asio::steady_timer& timer_;
};

Task<Signal::Wake> Signal::wait(Deadline deadline) {
  asio::steady_timer timer(co_await asio::this_coro::executor, deadline.when());
  Waiter waiter(*this, timer);
  const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (!error) co_return Wake::timed_out;
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() == asio::cancellation_type::none ? Wake::notified : Wake::cancelled;
}

void Signal::notify() {
  for (asio::steady_timer* timer : waiters_) timer->cancel();
}

void Exchange::abort(Error why) {
  if (in == Side::failed && out == Side::failed) return;
  in = out = Side::failed;
  error = std::move(why);
  received.clear();
  pending.clear();
  readable.notify();
  writable.notify();
}

void Exchange::cut(const Error& why) {
  const bool unsent = out == Side::open || !pending.empty();
  if (in == Side::open) {
    in = Side::failed;
    received.clear();
    error = why;
  }
  if (unsent && out != Side::failed) {
    out = Side::failed;
    pending.clear();
    error = why;
  }
  readable.notify();
  writable.notify();
}

ExchangeOwner::~ExchangeOwner() {
  if (!exchange_ || exchange_->done()) return;
  if (auto engine = exchange_->engine.lock()) engine->reset(*exchange_);
}

namespace {

constexpr std::size_t pending_max = 64 * 1024;

class TunnelStream final : public Stream {
 public:
  explicit TunnelStream(ExchangePtr exchange) : exchange_(std::move(exchange)) {}
  TunnelStream(const TunnelStream&) = delete;
  TunnelStream& operator=(const TunnelStream&) = delete;
  ~TunnelStream() override {
    if (auto engine = exchange_->engine.lock()) engine->abandon(*exchange_);
  }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override { return read_input(exchange_, into); }
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    return write_output(exchange_, bytes);
  }
  Task<Result<void>> finish() override { co_return end_output(*exchange_); }
  void reset() noexcept override {
    if (auto engine = exchange_->engine.lock()) engine->reset(*exchange_);
  }

 private:
  ExchangePtr exchange_;
};

}  // namespace

Task<Result<std::size_t>> read_input(ExchangePtr exchange, std::span<std::byte> into) {
  while (true) {
    if (exchange->in == Exchange::Side::failed) co_return std::unexpected(exchange->error);
    if (exchange->refused()) co_return fail(code_of_http_status(exchange->status), "the tunnel was refused");
    if (!exchange->received.empty() || into.empty()) break;
    if (exchange->in == Exchange::Side::ended) co_return 0;
    if (co_await exchange->readable.wait(no_deadline()) == Signal::Wake::cancelled)
      co_return fail(Code::unavailable, "read cancelled");
  }
  const std::size_t count = exchange->received.take(into);
  if (auto engine = exchange->engine.lock()) engine->consumed(*exchange, count);
  co_return count;
}

Task<Result<void>> write_output(ExchangePtr exchange, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (exchange->out == Exchange::Side::failed) co_return std::unexpected(exchange->error);
    if (exchange->out == Exchange::Side::ended) co_return fail(Code::internal, "write after finish");
    const std::size_t count = std::min(bytes.size(), pending_max - exchange->pending.size());
    if (count > 0) {
      exchange->pending.append(bytes.first(count));
      bytes = bytes.subspan(count);
      if (auto engine = exchange->engine.lock()) engine->output_ready(*exchange);
    } else if (co_await exchange->writable.wait(no_deadline()) == Signal::Wake::cancelled) {
      co_return fail(Code::unavailable, "write cancelled");
    }
  }
  co_return Result<void>();
}

Result<void> end_output(Exchange& exchange) {
  if (exchange.out == Exchange::Side::failed) return std::unexpected(exchange.error);
  if (exchange.out == Exchange::Side::open) {
    exchange.out = Exchange::Side::ended;
    if (auto engine = exchange.engine.lock()) engine->output_ready(exchange);
  }
  return {};
}

StreamPtr make_tunnel_stream(ExchangePtr exchange) {
  return std::make_unique<TunnelStream>(std::move(exchange));
}

}  // namespace space
