// Api: the routes of the control plane, one function each. Bodies in and out are whole and small.
#pragma once

#include <string>

#include "control/auth.h"
#include "control/log_query.h"
#include "control/node_link.h"
#include "control/router.h"
#include "control/sandbox_service.h"
#include "net/http.h"

namespace space::control {

struct Reply {
  int status = 200;
  std::string body;  // JSON; "" = none
  http::Fields fields;
};

Reply to_reply(const ApiError& error);

struct ApiRequest {
  ApiRoute route;
  store::Team team;  // of the key; empty where the route needs none
  std::string query;
  std::string body;
};

class Api {
 public:
  Api(store::Repository& repository, SandboxService& sandboxes, NodeLink& nodes, Auth& auth,
      const Clock& clock, std::string domain)
      : repository_(repository),
        sandboxes_(sandboxes),
        nodes_(nodes),
        auth_(auth),
        clock_(clock),
        domain_(std::move(domain)) {}

  // Who asks; to be answered before the body is read. An empty team for the routes open to all.
  Task<Result<store::Team>> authenticate(Action action, std::optional<std::string> api_key);
  Task<Reply> handle(ApiRequest request);

 private:
  // api_sandboxes.cc
  Task<Reply> create(ApiRequest request, ApiVersion version);
  Task<Reply> connect(ApiRequest request, ApiVersion version);
  Task<Reply> list(ApiRequest request);
  Task<Reply> get(ApiRequest request);
  Task<Reply> remove(ApiRequest request);
  Task<Reply> set_timeout(ApiRequest request);
  // api_moves.cc
  Task<Reply> resume(ApiRequest request);
  Task<Reply> start_again(ApiRequest request);
  Task<Reply> pause(ApiRequest request);
  Task<Reply> stop(ApiRequest request);
  Task<Reply> get_pause_policy(ApiRequest request);
  Task<Reply> set_pause_policy(ApiRequest request);
  // api_snapshots.cc
  Task<Reply> checkpoint(ApiRequest request);
  Task<Reply> snapshots(ApiRequest request);
  Task<Reply> remove_snapshot(ApiRequest request);
  Task<Reply> change_snapshot(ApiRequest request);
  Task<Reply> rollback(ApiRequest request);
  Task<Reply> get_schedule(ApiRequest request);
  Task<Reply> set_schedule(ApiRequest request);
  Task<Reply> get_recovery(ApiRequest request);
  Task<Reply> set_recovery(ApiRequest request);
  Task<Reply> recover(ApiRequest request);
  Task<Reply> history(ApiRequest request);
  Task<Reply> diff(ApiRequest request);
  // api_forks.cc
  Task<Reply> fork(ApiRequest request, ForkRoute route);
  Task<Reply> publish_snapshot(ApiRequest request);
  Task<Reply> list_published(ApiRequest request);
  Task<Reply> remove_published(ApiRequest request);
  // api_egress.cc
  Task<Reply> set_network(ApiRequest request);
  Task<Reply> get_egress(ApiRequest request);
  Task<Reply> set_egress(ApiRequest request);
  Task<Reply> edit_egress(ApiRequest request);
  Task<Reply> test_egress(ApiRequest request);
  Task<Reply> egress_log(ApiRequest request);
  EgressRights egress_rights(const ApiRequest& request) const;
  // api_pools.cc
  Task<Reply> list_pools(ApiRequest request);
  Task<Reply> set_pool(ApiRequest request);
  // api_templates.cc
  Task<Reply> list_templates(ApiRequest request);
  Task<Reply> add_template(ApiRequest request);
  Task<Reply> remove_template(ApiRequest request);
  // api_observation.cc
  Task<Reply> logs(ApiRequest request, LogRoute route);
  Task<Reply> sandbox_stats(ApiRequest request);
  Task<Reply> all_stats(ApiRequest request);
  Task<Reply> isolation(ApiRequest request);
  Task<Reply> inspect(ApiRequest request);
  // api.cc
  struct Handlers;
  Task<Reply> health(ApiRequest request);
  Task<Reply> node_info(ApiRequest request);
  template <ApiVersion version>
  Task<Reply> create_as(ApiRequest request) {
    return create(std::move(request), version);
  }
  template <ApiVersion version>
  Task<Reply> connect_as(ApiRequest request) {
    return connect(std::move(request), version);
  }
  template <LogRoute route>
  Task<Reply> logs_as(ApiRequest request) {
    return logs(std::move(request), route);
  }
  template <ForkRoute route>
  Task<Reply> fork_as(ApiRequest request) {
    return fork(std::move(request), route);
  }

  store::Repository& repository_;
  SandboxService& sandboxes_;
  NodeLink& nodes_;
  Auth& auth_;
  const Clock& clock_;
  std::string domain_;  // of sandbox host names; "" = the client's own
};

}  // namespace space::control
