// Edge: the listener that clients talk to, HTTP/1.1 and HTTP/2. Routes and authorises every request by itself
// and hands it to the Api or the Proxy. Belongs to the loop.
#pragma once

#include <memory>

#include "control/api.h"
#include "control/proxy.h"
#include "control/signed_urls.h"
#include "net/web_server.h"

namespace space::control {

class Edge {
 public:
  Edge(const Executor& executor, Api& api, Proxy& proxy, SignedUrls& signed_urls);

  Task<void> run(std::unique_ptr<Listener> listener);  // until the listener is closed
  Task<void> serve(StreamPtr stream) { return server_.serve(std::move(stream)); }  // one connection
  // Takes no more requests, as far as clients can be told; returns when those under way are answered.
  Task<void> retire(Deadline deadline);

 private:
  Task<void> answer(http::ServerExchange& client, http::RequestHead head);
  Task<void> answer_api(http::ServerExchange& client, http::RequestHead head, ApiRoute route);
  Task<void> answer_signed_file(http::ServerExchange& client, http::RequestHead head);

  Executor executor_;
  Api& api_;
  Proxy& proxy_;
  SignedUrls& signed_urls_;
  http::WebServer server_;
};

}  // namespace space::control
