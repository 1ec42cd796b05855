#include "guest/activity_json.h"

namespace space::guest {

JsonArray leases_json(GuestState& state) {
  const Monotonic now = system_clock().monotonic();
  JsonArray leases;
  for (const auto& [name, end] : state.leases.held(now))
    leases.push_back(
        JsonObject{{"name", name}, {"expires_in_ms", std::chrono::duration_cast<Millis>(end - now).count()}});
  return leases;
}

JsonObject activity_json(GuestState& state, std::uint64_t cpu_used_us, std::size_t streams) {
  JsonObject answer{{"cpu_used_us", cpu_used_us},
                    {"streams", streams},
                    {"leases", leases_json(state)},
                    {"wake_at_us", nullptr}};
  if (const auto at = state.wake_up.at(system_clock().wall()))
    answer["wake_at_us"] =
        std::chrono::duration_cast<std::chrono::microseconds>(at->time_since_epoch()).count();
  return answer;
}

}  // namespace space::guest
