// The JSON bodies that clients send. What is accepted must hold its own promises.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "control/create_request.h"

using namespace space;
using namespace space::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t max_s = 24 * 3600;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const ApiVersion version : {ApiVersion::v1, ApiVersion::v2}) {
    if (const auto request = parse_create_request(body, version, max_s)) {
      if (request->template_name.empty() || request->timeout_s < 1 || request->timeout_s > max_s)
        std::abort();
      if (!request->options.network.empty() && !parse_json(request->options.network)) std::abort();
    }
    if (const auto request = parse_connect_request(body, version, max_s))
      if (request->timeout_s < 1 || request->timeout_s > max_s) std::abort();
  }
  (void)parse_pause_request(body);
  if (const auto policy = parse_pause_policy(body, {}); policy && policy->idle_pause_s.value_or(1) < 1)
    std::abort();
  if (const auto timeout_s = parse_timeout_request(body); timeout_s && *timeout_s < 1) std::abort();
  return 0;
}
