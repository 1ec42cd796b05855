// What a fork is asked for and what comes of it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "control/api_error.h"
#include "store/records.h"

namespace space::control {

inline constexpr std::int64_t forks_max = 100;

struct ForkRequest {
  std::int64_t count = 1;  // 1 … forks_max
  std::int64_t timeout_s = 0;
  std::optional<std::int64_t> snapshot;  // of the sandbox, by its number; nullopt: as it is now
  bool running_only = true;              // false: one that rests is forked too, and goes on resting
};

// In the order they were made in; each by itself a sandbox or why there is none.
using ForkResults = std::vector<ApiResult<store::Sandbox>>;

// The body of a fork; an empty one asks for one sandbox. invalid_argument names the member. E2B's route has
// no "snapshot" and forks what runs only.
enum class ForkRoute : unsigned char { e2b, v1 };
Result<ForkRequest> parse_fork_request(std::string_view body, ForkRoute route, std::int64_t timeout_max_s);

// [{"sandbox":…} or {"error":{"code","message"}}]
JsonArray forks_json(const ForkResults& results, const std::string& domain);

}  // namespace space::control
