// `upgrade` (api/channel.md): pieces of the new program, then, once its last piece was answered, the exec.
#pragma once

#include "guest/control_surroundings.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"
#include "guest/upgrade.h"

namespace space::guest {

class UpgradeCall {
 public:
  UpgradeCall(GuestState& state, ProcessTable& table, const ControlSurroundings& around)
      : state_(state), table_(table), around_(around) {}

  // {"received":N}. The program is tried (--version) before the last piece is answered: one that does not run
  // here is refused with invalid_argument.
  Task<Result<JsonObject>> take(UpgradePiece piece);
  bool replacing() const { return replacing_; }

 private:
  Task<Result<void>> try_program();
  Task<void> replace_soon();

  GuestState& state_;
  ProcessTable& table_;
  const ControlSurroundings& around_;
  Upgrade upgrade_;
  bool replacing_ = false;
};

// What the daemon that takes over needs, and its beginning with it.
Handover hand_over(GuestState& state, ProcessTable& table);
void take_over(Handover handover, GuestState& state, ProcessTable& table);

}  // namespace space::guest
