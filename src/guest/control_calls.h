// The host's control calls (api/channel.md). They come only over the private channel.
#pragma once

#include <functional>

#include "guest/cgroup.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"
#include "net/h2_session.h"

namespace space::guest {

class ControlCalls {
 public:
  struct Surroundings {
    Cgroups* cgroups = nullptr;  // nullptr: nothing can be frozen
    std::function<std::size_t()> open_tunnels;
    std::function<void(bool reboot)> shut_down;  // returns at once
  };
  ControlCalls(GuestState& state, ProcessTable& table, Surroundings surroundings)
      : state_(state), table_(table), around_(std::move(surroundings)) {}

  Task<CallResponse> handle(CallRequest request);
  // The answer of `activity`.
  Result<JsonObject> activity() const;

 private:
  Task<Result<JsonObject>> dispatch(std::string name, JsonObject message);
  Result<JsonObject> identity(const JsonObject& message);
  Result<JsonObject> init(const JsonObject& message);
  Result<JsonObject> clock(const JsonObject& message);
  Result<JsonObject> entropy(const JsonObject& message);
  Task<Result<JsonObject>> quiesce(JsonObject message);
  Result<JsonObject> thaw();
  Result<JsonObject> stats() const;
  Result<JsonObject> shutdown(const JsonObject& message);

  GuestState& state_;
  ProcessTable& table_;
  Surroundings around_;
};

}  // namespace space::guest
