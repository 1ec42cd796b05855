// The bodies of create, connect and timeout requests, parsed and checked. Pure; fuzzed.
//
// Errors are invalid_argument and name the member. Members that are not known are ignored: newer clients send
// more. What is known but would silently not happen (auto-pause, volumes, workload identity) is refused.
#pragma once

#include <map>
#include <string>

#include "base/secret.h"
#include "store/records.h"

namespace space::control {

enum class ApiVersion : unsigned char { v1, v2 };

struct CreateRequest {
  std::string template_name;
  std::int64_t timeout_s = 0;
  store::SandboxOptions options;
  std::map<std::string, SecretText> env;
  bool secure = true;  // false: no access token, the daemon is open to whoever knows the id
};

Result<CreateRequest> parse_create_request(std::string_view body, ApiVersion version,
                                           std::int64_t timeout_max_s);

// The lifetime a connect asks for, in seconds. An empty body asks for the default.
Result<std::int64_t> parse_connect_request(std::string_view body, ApiVersion version,
                                           std::int64_t timeout_max_s);

// The new lifetime in seconds, > 0; the maximum is the caller's business.
Result<std::int64_t> parse_timeout_request(std::string_view body);

}  // namespace space::control
