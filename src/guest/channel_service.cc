#include "guest/channel_service.h"

#include <charconv>

#include "base/log.h"

namespace space::guest {

namespace {

constexpr Millis dial_limit{5'000};
constexpr Millis pause_after_failure{5};

}  // namespace

std::optional<std::uint16_t> tunnel_port(std::string_view authority) {
  constexpr std::string_view host = "localhost:";
  if (!authority.starts_with(host)) return std::nullopt;
  authority.remove_prefix(host.size());
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(authority.data(), authority.data() + authority.size(), port);
  if (error != std::errc() || end != authority.data() + authority.size() || port == 0) return std::nullopt;
  return port;
}

Task<void> ChannelService::run(ChannelPort port) {
  channel::Acceptor acceptor;
  for (;;) {
    if (!acceptor.is_open()) {
      if (!acceptor.has_more()) {
        if (const auto host = co_await port.wait_for_host(); !host) {
          log::error("channel lost", {log::Field(host.error())});
          co_return;
        }
      }
      if (auto stream = port.session_stream()) acceptor.reopen(*std::move(stream));
    }
    log::debug("channel session ended", {log::Field(co_await serve_session(acceptor))});
    // A host that sends garbage must not keep the processor busy; one that waits for an answer gets it.
    if (!acceptor.has_more()) co_await sleep_for(pause_after_failure);
  }
}

Task<Error> ChannelService::serve(StreamPtr transport) {
  channel::Acceptor acceptor(std::move(transport));
  Error why = co_await serve_session(acceptor);
  while (acceptor.is_open()) why = co_await serve_session(acceptor);
  co_return why;
}

Task<Error> ChannelService::serve_session(channel::Acceptor& acceptor) {
  while (held_) co_await changed_.wait();
  auto accepted = co_await acceptor.accept([this](const channel::Sync& sync) { calls_.take_sync(sync); });
  if (!accepted) co_return accepted.error();
  const auto session = H2Session::server(*std::move(accepted), handlers());
  session_ = session;
  const Error why = co_await session->run();
  session_.reset();
  changed_.notify_all();
  co_return why;
}

Task<void> ChannelService::hang_up(Deadline deadline) {
  held_ = true;
  if (session_) session_->retire();
  while (session_ && !deadline.passed()) co_await changed_.wait(deadline);
}

void ChannelService::go_on() {
  held_ = false;
  changed_.notify_all();
}

H2Handlers ChannelService::handlers() {
  return {.call = [this](CallRequest request) { return calls_.handle(std::move(request)); },
          .connect = [this](std::string authority) { return accept_tunnel(std::move(authority)); }};
}

Task<Result<H2Handlers::Tunnel>> ChannelService::accept_tunnel(std::string authority) {
  const auto port = tunnel_port(authority);
  if (!port) co_return fail(Code::invalid_argument, "'{}' is not a port of localhost", authority);
  if (*port == daemon_port)
    co_return [this](StreamPtr stream) { return run_tunnel(std::move(stream), nullptr); };
  const Deadline deadline = Deadline::after(dial_limit);
  auto target = co_await connect_tcp("127.0.0.1", *port, deadline);
  if (!target) target = co_await connect_tcp("::1", *port, deadline);
  if (!target) co_return fail(Code::unavailable, "port {} is not open", *port);
  co_return [this, shared = std::make_shared<StreamPtr>(*std::move(target))](StreamPtr stream) {
    return run_tunnel(std::move(stream), std::move(*shared));
  };
}

// Without a target the stream is a connection of the daemon's own server.
Task<void> ChannelService::run_tunnel(StreamPtr stream, StreamPtr target) {
  struct Count {
    explicit Count(std::size_t& open) : open_(open) { ++open_; }
    ~Count() { --open_; }
    std::size_t& open_;
  } count(open_tunnels_);
  if (target) {
    co_await splice(std::move(stream), std::move(target));
  } else {
    co_await http_.serve(std::move(stream));
  }
}

}  // namespace space::guest
