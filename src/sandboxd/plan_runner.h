// The one runner of start plans.
#pragma once

#include <vector>

#include "core/start_plan.h"
#include "net/task.h"

namespace space {

class PlanExecutor {
 public:
  virtual ~PlanExecutor() = default;
  virtual Task<Result<void>> apply(Effect effect, Deadline deadline) = 0;
  virtual Task<Result<void>> undo(Undo undo) = 0;
};

struct PlanOutcome {
  Result<void> started;
  Result<void> unwound;  // of a failed start: the first undo that failed; what it left must be removed later
};

// Applies the steps in order. When one fails, its own undo (it may have happened in part) and those of all
// before it run in reverse order, every one of them whatever the others answer. `executor` outlives the task.
Task<PlanOutcome> run_plan(StartPlan plan, PlanExecutor& executor);

// Runs the undos in the order given, every one; answers the first failure.
Task<Result<void>> unwind(std::vector<Undo> undos, PlanExecutor& executor);

}  // namespace space
