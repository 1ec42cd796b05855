// Live: the copy in memory of a sandbox's row, and what is under way with it in this process. Inside of
// SandboxService only.
#pragma once

#include "control/sandbox_service.h"

namespace space::control {

struct SandboxService::Live {
  Live(const Executor& executor, store::Sandbox copy) : row(std::move(copy)), changed(executor) {}

  store::Sandbox row;          // as last written
  bool starting_here = false;  // a create of this process waits for the node
  bool deleting_here = false;  // a deletion is under way
  bool over = false;           // its tombstone is written
  Event changed;               // over, or a deletion stopped short of it
};

}  // namespace space::control
