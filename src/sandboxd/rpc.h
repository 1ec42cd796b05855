// NodeRpc: serves api/node-rpc.md. What concerns snapshots is in rpc_snapshots.cc, the network rpc_egress.cc.
// Every call and tunnel is its own coroutine of the session that asked.
#pragma once

#include <string>

#include "net/h2_session.h"
#include "sandboxd/accelerator_probe.h"
#include "sandboxd/events.h"
#include "sandboxd/manager.h"
#include "sandboxd/templates.h"

namespace space {

class NodeRpc {
 public:
  // All outlive every session.
  struct Parts {
    std::string node_id;
    std::string version;  // of this build
    NodedClient& noded;
    NetdClient& netd;
    Manager& manager;
    Templates& templates;
    EventLog& events;
    AcceleratorProbe& accelerator;
  };
  explicit NodeRpc(Parts parts) : parts_(std::move(parts)) {}

  // Refer to this object.
  H2Handlers handlers();

  Task<CallResponse> call(CallRequest request);

 private:
  using Answer = Task<Result<JsonObject>>;
  Answer dispatch(std::string path, JsonObject body);
  Answer hello(JsonObject body);
  Answer create(JsonObject body);
  Answer remove(JsonObject body);
  Answer pause(JsonObject body);
  Answer resume(JsonObject body);
  Answer stop(JsonObject body);
  Answer snapshot(JsonObject body);
  Answer snapshots(JsonObject body);
  Answer remove_snapshot(JsonObject body);
  Answer set_snapshot(JsonObject body);
  Answer withdraw_snapshot(JsonObject body);
  Answer published_snapshots(JsonObject body);
  Answer rollback(JsonObject body);
  Answer history(JsonObject body);
  Answer diff(JsonObject body);
  Answer policy(JsonObject body);
  Answer schedule(JsonObject body);
  Answer recovery(JsonObject body);
  Answer recover(JsonObject body);
  Answer set_egress(JsonObject body);
  Answer test_egress(JsonObject body);
  Answer egress_log(JsonObject body);
  Answer egress_stats(JsonObject body);
  Answer take_from_pool(JsonObject body);
  Answer list_pools(JsonObject body);
  Answer set_pool(JsonObject body);
  Answer get(JsonObject body);
  Answer list(JsonObject body);
  Answer stats(JsonObject body);
  Answer all_stats(JsonObject body);
  Answer activity(JsonObject body);
  Answer isolation(JsonObject body);
  Answer logs(JsonObject body);
  Answer events(JsonObject body);
  Answer list_templates(JsonObject body);
  Answer import_template(JsonObject body);
  Answer remove_template(JsonObject body);

  Parts parts_;
};

}  // namespace space
