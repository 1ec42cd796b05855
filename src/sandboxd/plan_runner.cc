#include "sandboxd/plan_runner.h"

#include "base/log.h"

namespace space {
namespace {

std::int64_t micros_since(Monotonic begun) {
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock().monotonic() - begun).count();
}

}  // namespace

Task<PlanOutcome> run_plan(StartPlan plan, PlanExecutor& executor) {
  std::vector<Undo> undos;  // the latest first
  for (Step& step : plan) {
    if (step.undo != Undo::none) undos.insert(undos.begin(), step.undo);
    const std::string_view name = name_of(step.effect);
    const Monotonic begun = system_clock().monotonic();
    auto applied = co_await executor.apply(std::move(step.effect), Deadline::after(step.limit));
    log::debug("step", {{"name", name}, {"us", micros_since(begun)}, {"done", applied.has_value()}});
    if (applied) continue;
    co_return PlanOutcome{wrap(std::move(applied).error(), name),
                          co_await unwind(std::move(undos), executor)};
  }
  co_return PlanOutcome{};
}

Task<Result<void>> unwind(std::vector<Undo> undos, PlanExecutor& executor) {
  Result<void> outcome;
  for (const Undo undo : undos) {
    auto undone = co_await executor.undo(undo);
    if (!undone && outcome) outcome = wrap(std::move(undone).error(), to_string(undo));
  }
  co_return outcome;
}

}  // namespace space
