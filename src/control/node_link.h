// NodeLink: the session with the node. The node dials; we are the client on its connection (api/node-rpc.md).
//
// One node at present. Between two sessions callers wait a little for the node to come back. All of it
// belongs to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "net/h2_session.h"

namespace space::control {

class NodeSession {
 public:
  NodeSession(std::shared_ptr<H2Session> session, JsonObject hello)
      : session_(std::move(session)), hello_(std::move(hello)) {}

  // `name` as in "sandbox/create". A refusal carries the node's code and sentence.
  Task<Result<JsonObject>> call(std::string name, JsonObject request, Deadline deadline);
  // A tunnel into a sandbox. Refusals: not_found: not running here; conflict: in transition for too long;
  // unavailable: refused by the guest, or the session is gone (closed()).
  Task<Result<OpeningTunnel>> open_tunnel(std::string sandbox, std::uint16_t port, Deadline deadline);

  const JsonObject& hello() const { return hello_; }  // the node's answer to it
  bool closed() const { return session_->closed(); }
  void close(std::string reason) { session_->close(std::move(reason)); }

 private:
  std::shared_ptr<H2Session> session_;
  JsonObject hello_;
};

using NodeSessionPtr = std::shared_ptr<NodeSession>;

// Who keeps records and node in agreement.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // Before anybody else may use the session: bring our records in line with what the node holds.
  virtual Task<Result<void>> reconcile(NodeSessionPtr session) = 0;
  // Follows the node's events until the session closes.
  virtual Task<void> follow(NodeSessionPtr session) = 0;
};

class NodeLink {
 public:
  explicit NodeLink(const Executor& executor) : executor_(executor), changed_(executor) {}

  // Serves one connection of the node until it ends; a newer one takes over from an older one.
  Task<void> serve(StreamPtr transport, NodeObserver& observer);

  NodeSessionPtr current() const;                // null: no node
  Task<NodeSessionPtr> wait(Deadline deadline);  // null: none came in time

 private:
  Task<Result<NodeSessionPtr>> welcome(std::shared_ptr<H2Session> session, NodeObserver& observer);

  Executor executor_;
  Event changed_;
  NodeSessionPtr current_;
};

}  // namespace space::control
