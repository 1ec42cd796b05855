#include "net/web_server.h"

#include "base/log.h"

namespace space::http {
namespace {

// Owns a share: a loop that is destroyed destroys its coroutines after the server.
struct Count {
  explicit Count(std::shared_ptr<std::size_t> number) : number_(std::move(number)) { ++*number_; }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  ~Count() { --*number_; }
  std::shared_ptr<std::size_t> number_;
};

}  // namespace

H2Limits client_limits() {
  return {.streams_max = 256,
          .tunnel_window_bytes = 256 * 1024,
          .session_window_bytes = 8 * 1024 * 1024,
          .session_window_waits = true,
          .header_bytes_max = 2 * head_limit_bytes,  // from the half on it is answered 431, then cut off
          .resets_per_second_max = 1000};
}

Task<void> WebServer::serve(StreamPtr stream) {
  const Count count(connections_);
  ServerConnection connection(std::move(stream));
  while (!retired_) {
    auto head = co_await connection.read_request(Deadline::after(idle_));
    if (!head) {
      const Code code = head.error().code;
      if (code == Code::invalid_argument || code == Code::exhausted)
        co_await handlers_.malformed(connection, std::move(head).error());
      co_return;
    }
    if (!*head) co_return;
    if (connection.speaks_http2()) co_return co_await serve_http_2(connection.release());
    co_await answer(connection, **std::move(head));
  }
}

Task<void> WebServer::serve_http_2(StreamPtr stream) {
  const auto request = [this](ServerExchange& exchange, RequestHead head) {
    return answer(exchange, std::move(head));
  };
  const auto session =
      H2Session::http_server(std::move(stream), {request, handlers_.malformed}, idle_, limits_);
  sessions_.insert(session.get());
  const Error why = co_await session->run();
  sessions_.erase(session.get());
  log::debug("HTTP/2 connection ended", {log::Field(why)});
}

Task<void> WebServer::answer(ServerExchange& exchange, RequestHead head) {
  const Count count(exchanges_);
  co_await handlers_.request(exchange, std::move(head));
}

void WebServer::retire() noexcept {
  retired_ = true;
  for (H2Session* session : sessions_) session->retire();
}

}  // namespace space::http
