// The host's control calls (api/channel.md). They come only over the private channel.
#pragma once

#include "guest/control_messages.h"
#include "guest/control_surroundings.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"
#include "guest/upgrade_call.h"
#include "net/channel.h"
#include "net/h2_session.h"

namespace space::guest {

class ControlCalls {
 public:
  ControlCalls(const Executor& executor, GuestState& state, ProcessTable& table,
               ControlSurroundings surroundings);

  Task<CallResponse> handle(CallRequest request);
  // Clock and entropy of an attach, before the host hears an answer: nothing may run on copied ones.
  void take_sync(const channel::Sync& sync);
  // The answer of `activity`.
  Result<JsonObject> activity() const;

 private:
  Task<Result<JsonObject>> dispatch(std::string name, JsonObject message);
  Task<Result<JsonObject>> dispatch_slow(std::string name, JsonObject message);
  Task<Result<JsonObject>> identity(JsonObject message);
  Result<JsonObject> init(const JsonObject& message);
  Result<JsonObject> clock(const JsonObject& message);
  Result<JsonObject> entropy(const JsonObject& message);
  Task<Result<JsonObject>> quiesce(JsonObject message);
  Result<JsonObject> thaw();
  Task<Result<JsonObject>> freeze_disk(JsonObject message);
  Task<Result<JsonObject>> thaw_disk();
  static Task<Result<JsonObject>> diff(JsonObject message);
  Task<Result<JsonObject>> warm(JsonObject message);
  Task<Result<JsonObject>> wake(JsonObject message);
  Task<JsonObject> run_wake(WakeMessage message);
  Task<Result<JsonObject>> upgrade(JsonObject message);
  Result<JsonObject> stats() const;
  Result<JsonObject> shutdown(const JsonObject& message);

  GuestState& state_;
  ProcessTable& table_;
  ControlSurroundings around_;
  UpgradeCall upgrade_;
  int quiescing_ = 0;    // under way
  bool waking_ = false;  // one at a time
  Event woken_;
};

}  // namespace space::guest
