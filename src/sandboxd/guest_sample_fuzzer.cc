// A guest's answers to `activity` and `stats`: whatever they are, what is taken of them is within bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sandboxd/guest_sample.h"

using namespace space;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto answer = parse_json_object({reinterpret_cast<const char*>(data), size}, "answer");
  if (!answer) return 0;
  if (const auto activity = parse_guest_activity(*answer)) {
    if (activity->leases.size() > 64) std::abort();
    for (const GuestLease& lease : activity->leases)
      if (lease.name.empty() || lease.name.size() > 64 || lease.expires_in < Millis(0) ||
          lease.expires_in > Millis(86'400'000))
        std::abort();
    if (activity->wake_at) (void)to_rfc3339(*activity->wake_at);
  }
  if (const auto stats = parse_guest_stats(*answer); stats && stats->cpu_count > 1024) std::abort();
  return 0;
}
