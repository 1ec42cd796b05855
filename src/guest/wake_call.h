// `wake` (api/channel.md): everything a guest is told after it stood still, in one call and in a fixed order.
// A step that fails is reported and keeps no later one from being done, the thaw least of all.
#pragma once

#include "guest/control_messages.h"
#include "guest/control_surroundings.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"

namespace space::guest {

class WakeCall {
 public:
  WakeCall(GuestState& state, ProcessTable& table, const ControlSurroundings& around)
      : state_(state), table_(table), around_(around) {}

  // The whole answer. Every step may be done again.
  Task<JsonObject> run(WakeMessage message);

 private:
  void note(std::string_view step, const Result<void>& result);
  void step_clock(std::int64_t wall_clock_us);
  Task<void> step_identity(IdentityMessage message);
  Task<void> step_generation(std::optional<std::uint64_t> generation);
  Task<void> step_hooks(std::uint64_t generation);
  HookSurroundings hook_surroundings() const;

  GuestState& state_;
  ProcessTable& table_;
  const ControlSurroundings& around_;
  bool new_memory_ = false;
  JsonObject answer_{{"stepped_us", 0}, {"hooks", JsonArray()}};
  JsonArray failed_;
};

// Lets the user cgroup run, and the starts that waited for it.
Result<void> thaw_users(GuestState& state, Cgroups* cgroups);

}  // namespace space::guest
