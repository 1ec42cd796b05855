// NetdClient: the calls of space-netd (api/netd-rpc.md) as coroutines, and which sandboxes are to have its
// sockets open: a gateway that was away is told all of them again. Belongs to the loop; outlives every call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/json.h"
#include "net/h2_session.h"
#include "net/task.h"

namespace space {

// What a sandbox may reach, as the gateway is told.
struct Egress {
  std::string policy = R"({"mode":"deny_all"})";  // JSON of core/egress_policy.h
  std::int64_t generation = 0;
  std::string pins_of;  // the sandbox whose names it knows; "": none
};

// How the network of a sandbox is.
struct NetworkState {
  std::string state = "ok";  // ok, down, repaired
  std::string reason;
};

class NetdClient {
 public:
  NetdClient(Executor executor, std::string socket_path);
  ~NetdClient();
  NetdClient(const NetdClient&) = delete;
  NetdClient& operator=(const NetdClient&) = delete;

  // Connects, and again whenever the gateway was away, for ever. What it still knows of sandboxes that are
  // none of `is_known` and not attached here is forgotten.
  Task<void> run(std::function<bool(const std::string& id)> is_known);

  // Opens the sockets of its slot under this policy, now and whenever the gateway comes back, until detach.
  // unavailable: the gateway did not answer in time.
  Task<Result<void>> attach(std::string id, Egress egress, Deadline deadline);
  // In force when it returns; how many flows were cut. After an error the policy is what it was. 0 where it
  // is not attached.
  Task<Result<std::int64_t>> set_policy(std::string id, Egress egress, Deadline deadline);
  // At most a moment late: without an answer its sockets are gone, or go with the gateway.
  Task<Result<void>> detach(std::string id);
  Task<Result<void>> forget(std::string id);
  // Any other call, as it is.
  Task<Result<JsonObject>> call(std::string name, JsonObject body, Deadline deadline);

  bool is_attached(const std::string& id) const { return attached_.contains(id); }
  NetworkState state(const std::string& id) const;

 private:
  struct Attached {
    Egress egress;
    std::uint64_t attempt = 0;  // of telling the gateway; an older one counts for nothing
    bool telling = false;       // it is under way, and goes on with the next gateway by itself
    std::string failure;        // of the last
  };
  Task<Result<JsonObject>> call_while(std::string name, JsonObject body, Deadline deadline,
                                      std::function<bool()> wanted);
  Task<Result<void>> tell(std::string id, Deadline deadline);
  Task<void> tell_again(std::string id);
  Task<void> settle(std::function<bool(const std::string& id)> is_known);

  Executor executor_;
  std::string socket_path_;
  std::shared_ptr<H2Session> session_;
  Event connected_;
  std::map<std::string, Attached> attached_;
  std::uint64_t attempts_ = 0;
};

}  // namespace space
