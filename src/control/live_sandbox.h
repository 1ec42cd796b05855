// Live: the copy in memory of a sandbox's row, and what is under way with it in this process. Inside of
// SandboxService only.
#pragma once

#include "control/sandbox_service.h"

namespace space::control {

struct SandboxService::Live {
  Live(const Executor& executor, store::Sandbox copy) : row(std::move(copy)), changed(executor) {}

  store::Sandbox row;                    // as last written
  bool starting_here = false;            // a create of this process waits for the node
  bool deleting_here = false;            // a deletion is under way
  bool over = false;                     // its tombstone is written
  bool moving = false;                   // a pause, stop or resume is under way
  bool egress_changing = false;          // a change of its policy is under way, or told again
  bool watched = false;                  // the node is asked until a transition that it began ends
  std::uint64_t moves = 0;               // those that ended
  Error move_error{Code::internal, ""};  // of the last one, if it failed
  bool move_failed = false;
  std::optional<RollbackRequest> rollback;  // the move under way or the last one, if it was one
  std::int64_t rolled_back_to = 0;          // by the last that worked
  std::int64_t undo = 0;
  bool keeps_end = false;  // it ran when its rollback or crash came: its life is not a new one after that
  Event changed;           // its state, or a move ended, or it is over, or a deletion stopped short of it
};

}  // namespace space::control
