// GatewayRpc: serves api/netd-rpc.md.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "net/h2_session.h"
#include "netd/gateway.h"

namespace space::netd {

class GatewayRpc {
 public:
  explicit GatewayRpc(Gateway& gateway) : gateway_(gateway) {}

  Task<CallResponse> call(CallRequest request);

 private:
  using Answer = Task<Result<JsonObject>>;
  Answer dispatch(std::string path, JsonObject body);
  Answer attach(JsonObject body);
  Answer policy(JsonObject body);
  Answer detach(JsonObject body);
  Answer forget(JsonObject body);
  Answer list(JsonObject body);
  Answer test(JsonObject body);
  Answer log(JsonObject body);
  Answer stats(JsonObject body);

  Gateway& gateway_;
};

// The socket of the calls. Connections of another uid than `peer` and root are closed unread.
class GatewayDoor {
 public:
  // `path` is replaced if it exists; mode 0660, the group is the folder's (setgid).
  static Result<GatewayDoor> open(const std::string& path, uid_t peer);
  // Serves for ever.
  Task<void> serve(GatewayRpc& rpc);

 private:
  GatewayDoor(Fd listener, uid_t peer) : listener_(std::move(listener)), peer_(peer) {}
  bool may_enter(int fd) const;

  Fd listener_;
  uid_t peer_;
};

}  // namespace space::netd
