// SandboxService: the life of sandboxes as the control plane decides it.
//
// What is wanted is written down before the node hears of it; what the node reports is written down before a
// client does. The rows of everything that is not over are also kept in memory: timeouts and the data plane
// ask them for each request. Crash at any point: `start` and `reconcile` finish what was begun. Belongs to
// the loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/api_error.h"
#include "control/create_request.h"
#include "control/node_link.h"
#include "control/timeouts.h"
#include "store/repository.h"

namespace space::control {

struct ServiceLimits {
  std::int64_t timeout_max_s = 30 * 24 * 3600;
  Millis node_patience{5000};      // how long a request waits for a node that is just coming back
  Millis create_patience{50'000};  // clients give up after 60 s
  Millis delete_patience{20'000};  // then the answer is sent and the deletion goes on
};

// What the data plane must know of a sandbox.
struct DataPlaneTarget {
  std::string traffic_token;      // needed on all ports but the daemon's; "" = public
  std::string mask_request_host;  // "" = none
};

// A sandbox, and what the node said of it; empty when it said nothing.
struct Observed {
  store::Sandbox row;
  JsonObject answer;
};

class SandboxService final : public NodeObserver {
 public:
  SandboxService(const Executor& executor, store::Repository& repository, NodeLink& nodes, const Clock& clock,
                 ServiceLimits limits);

  // Once, before anything else: takes over what an earlier run left.
  Task<Result<void>> start();
  // Ends what is due, for ever.
  Task<void> run_timeouts();
  void expire_due();

  // Of a team's sandboxes. not_found: unknown, another team's, or over (then with the reason).
  Task<ApiResult<store::Sandbox>> create(store::Team team, CreateRequest request);
  Task<Result<store::Sandbox>> find(std::string team, std::string id);
  // Never shortens the life it has.
  Task<Result<store::Sandbox>> connect(std::string team, std::string id, std::int64_t timeout_s);
  // From now on; cut to the maximum.
  Task<Result<store::Sandbox>> set_timeout(std::string team, std::string id, std::int64_t timeout_s);
  // Returns once nothing of it is left on the node, or with the deletion promised and under way.
  Task<Result<void>> remove(std::string team, std::string id);

  // sandbox_observation.cc. What the node knows, in its own words (api/node-rpc.md).
  Task<Result<Observed>> stats(std::string team, std::string id);
  Task<Result<Observed>> isolation(std::string team, std::string id);
  Task<Result<std::vector<Observed>>> all_stats(std::string team);  // of those that run
  Task<Result<JsonObject>> logs(std::string team, JsonObject request);

  // nullopt: not here. Any caller: the data plane has no teams.
  std::optional<DataPlaneTarget> data_plane_target(const std::string& id) const;

  // Rows of those that live, for searches: by id, and the next in the order of ids ("": the first). nullptr:
  // none. Valid until the next co_await.
  const store::Sandbox* live_row(const std::string& id) const;
  const store::Sandbox* live_row_after(const std::string& id) const;
  std::size_t live_count() const { return live_.size(); }

  Task<Result<void>> reconcile(NodeSessionPtr session) override;
  Task<void> follow(NodeSessionPtr session) override;

  const ServiceLimits& limits() const { return limits_; }

 private:
  struct Live;
  using LivePtr = std::shared_ptr<Live>;
  struct NodeReport {  // one sandbox object or event of the node
    std::string id;
    State state;
    std::string reason;
  };

  Task<Result<JsonObject>> ask_node(std::string call, JsonObject request, Deadline deadline);
  // Tells the node that a client called; nobody waits for it.
  void note_call(const std::string& id);
  LivePtr find_live(const std::string& team, const std::string& id) const;
  Task<Result<LivePtr>> running(std::string team, std::string id);
  store::Sandbox new_row(const store::Team& team, const store::Template& source,
                         const CreateRequest& request) const;
  Task<ApiResult<store::Template>> resolve_template(store::Team team, std::string name);
  Task<Result<void>> start_on_node(std::string id, JsonObject request);
  Task<Result<store::Sandbox>> keep_running(LivePtr live);
  Task<ApiError> fail_create(LivePtr live, Error error);
  Task<Result<store::Sandbox>> move_end(LivePtr live, Wall end_at);
  Task<void> end(std::string id, std::string reason);
  Task<void> converge_deletion(LivePtr live);
  Task<void> bury(LivePtr live, State state, std::string reason);
  Task<bool> remove_from_node(std::string id);
  Task<void> remove_orphan(std::string id);
  Task<void> compare(NodeReport report);
  static Result<NodeReport> read_report(const Json& value);
  void forget(const LivePtr& live);
  void arm(const store::Sandbox& row);

  Executor executor_;
  store::Repository& repository_;
  NodeLink& nodes_;
  const Clock& clock_;
  ServiceLimits limits_;
  std::map<std::string, LivePtr> live_;
  Timeouts timeouts_;
  Event timeouts_changed_;
};

}  // namespace space::control
