// Edge: the listener that clients talk to. Reads one request after the other, routes and authorises every one
// by itself, hands it to the Api or the Proxy. Belongs to the loop.
#pragma once

#include <memory>

#include "control/api.h"
#include "control/proxy.h"
#include "net/stream.h"

namespace space::control {

class Edge {
 public:
  Edge(const Executor& executor, Api& api, Proxy& proxy) : executor_(executor), api_(api), proxy_(proxy) {}

  Task<void> run(std::unique_ptr<Listener> listener);  // until the listener is closed
  Task<void> serve(StreamPtr stream);                  // one connection, to its end

 private:
  Task<bool> answer(http::ServerConnection& connection, http::RequestHead head);
  Task<bool> answer_api(http::ServerConnection& connection, http::RequestHead head, ApiRoute route);

  Executor executor_;
  Api& api_;
  Proxy& proxy_;
  std::size_t connections_ = 0;
};

}  // namespace space::control
