// Router: where one request goes, from its head alone. Pure.
//
// Clients pool one connection across the API and many sandboxes, so nothing is remembered between requests.
//   1. Host `<port>-<sandbox id>[-…].<anything>`: that sandbox, whatever the headers say. A page served by
//   one
//      sandbox can thus not steer requests to another.
//   2. E2b-Sandbox-Id and E2b-Sandbox-Port, if Host is localhost, an IP address or starts with "sandbox.".
//   3. The API. /files is a part of it that leads to the sandbox whose token signed the URL.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "control/api_error.h"
#include "net/http.h"

namespace space::control {

inline constexpr std::uint16_t envd_port = 49983;

struct DataPlaneRoute {
  std::string sandbox;  // [a-z0-9]+, not known to exist
  std::uint16_t port = envd_port;
  bool operator==(const DataPlaneRoute&) const = default;
};

enum class Action : unsigned char {
  health,
  sandbox_create_v1,
  sandbox_create_v2,
  sandbox_connect_v1,
  sandbox_connect_v2,
  sandbox_list,
  sandbox_get,
  sandbox_delete,
  sandbox_set_timeout,
  sandbox_resume,
  sandbox_pause,
  sandbox_stop,
  sandbox_start,
  sandbox_checkpoint,
  sandbox_snapshots,
  snapshot_remove,
  snapshot_change,
  sandbox_fork_v1,
  sandbox_fork,
  snapshot_publish,
  published_list,
  published_remove,
  sandbox_rollback,
  schedule_get,
  schedule_set,
  recovery_get,
  recovery_set,
  recovery_start,
  sandbox_history,
  sandbox_diff,
  pause_policy_get,
  pause_policy_set,
  sandbox_set_network,
  egress_get,
  egress_set,
  egress_edit,
  egress_test,
  egress_log,
  sandbox_tunnel,
  signed_file,
  sandbox_logs_v1,
  sandbox_logs_v2,
  sandbox_stats,
  sandbox_isolation,
  sandbox_inspect,
  stats_list,
  template_list,
  template_add,
  template_remove,
  pool_list,
  pool_set,
  node_info,
  not_available,  // a route of the E2B API that this version does not serve
};

struct ApiRoute {
  Action action = Action::health;
  std::string id;  // the {id} of the path, decoded; a sandbox's without the "-client" suffix of old clients
  std::string number = {};  // the {number} of the path, decoded, whatever it is
  bool operator==(const ApiRoute&) const = default;
};

// A request that names a sandbox the wrong way: 400, plain text.
struct InvalidTarget {
  std::string message;
  bool operator==(const InvalidTarget&) const = default;
};

struct RouteEntry {
  std::string_view method;
  std::string_view pattern;  // "/sandboxes/{id}"
  Action action;
};
// All routes of the API.
std::span<const RouteEntry> api_routes();

using Route = std::variant<DataPlaneRoute, ApiRoute, InvalidTarget, ApiError>;

Route route(const http::RequestHead& head);

// "1" to "65535".
std::optional<std::uint16_t> parse_port(std::string_view text);

// Routes of the guest daemon that only the platform may use; from outside they do not exist.
bool is_internal_path(std::string_view path);

}  // namespace space::control
