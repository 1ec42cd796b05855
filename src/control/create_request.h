// The bodies of create, connect, pause and timeout requests, parsed and checked. Pure; fuzzed.
//
// Errors are invalid_argument and name the member. Members that are not known are ignored: newer clients send
// more. What is known but would silently not happen (volumes, workload identity) is refused. A timeout is a
// number of seconds or "never".
#pragma once

#include <map>
#include <string>

#include "base/secret.h"
#include "control/egress_request.h"
#include "store/records.h"

namespace space::control {

enum class ApiVersion : unsigned char { v1, v2 };

struct CreateRequest {
  using Env = std::map<std::string, SecretText>;

  std::string template_name;
  std::int64_t timeout_s = 0;
  store::SandboxOptions options;
  store::Lifecycle lifecycle;
  store::PausePolicy policy;
  std::optional<SnapshotSchedule> schedule;
  RecoveryPolicy recovery = RecoveryPolicy::disk;
  EgressWish egress;
  Env env;
  bool secure = true;  // false: no access token, the daemon is open to whoever knows the id
};

Result<CreateRequest> parse_create_request(std::string_view body, ApiVersion version,
                                           std::int64_t timeout_max_s, EgressRights rights = {});

// The body of connect, resume and start. An empty one asks for the defaults.
struct ConnectRequest {
  std::int64_t timeout_s = 0;
  bool boot = false;              // drop the memory of a sandbox that rests, boot from its disk
  bool pause_on_timeout = false;  // from now on; false leaves what it was created with
};
Result<ConnectRequest> parse_connect_request(std::string_view body, ApiVersion version,
                                             std::int64_t timeout_max_s);

// Whether a pause keeps the memory. Old clients send no body.
Result<bool> parse_pause_request(std::string_view body);

// A member that is absent leaves what `policy` has; null is the node's default.
Result<store::PausePolicy> parse_pause_policy(std::string_view body, store::PausePolicy policy);

// The new lifetime in seconds, > 0; the maximum is the caller's business.
Result<std::int64_t> parse_timeout_request(std::string_view body);

}  // namespace space::control
