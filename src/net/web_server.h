// WebServer: clients' connections, HTTP/1.1 or HTTP/2, told apart by their first bytes; the handlers do not
// see which. An HTTP/2 client says so by its greeting (prior knowledge, RFC 9113 3.4), over TLS too once it
// has agreed on "h2": whatever Stream carries the bytes, this is where it is handed in.
#pragma once

#include <set>

#include "net/h2_session.h"

namespace space::http {

// What a client's HTTP/2 connection may use, by default.
H2Limits client_limits();

// Belongs to the loop; outlives the run of its connections' coroutines.
class WebServer {
 public:
  // A connection without a request for `idle` is closed.
  WebServer(ServerHandlers handlers, Millis idle, H2Limits limits = client_limits())
      : handlers_(std::move(handlers)), idle_(idle), limits_(limits) {}

  Task<void> serve(StreamPtr stream);  // one connection, to its end
  // No more requests on the connections there are, as far as their protocol can say so.
  void retire() noexcept;

  std::size_t connections() const { return *connections_; }
  std::size_t exchanges() const { return *exchanges_; }  // requests that are being answered

 private:
  Task<void> serve_http_2(StreamPtr stream);
  Task<void> answer(ServerExchange& exchange, RequestHead head);

  ServerHandlers handlers_;
  Millis idle_;
  H2Limits limits_;
  bool retired_ = false;
  std::shared_ptr<std::size_t> connections_ = std::make_shared<std::size_t>(0);
  std::shared_ptr<std::size_t> exchanges_ = std::make_shared<std::size_t>(0);
  std::set<H2Session*> sessions_;
};

}  // namespace space::http
