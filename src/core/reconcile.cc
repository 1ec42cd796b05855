#include "core/reconcile.h"

#include <algorithm>
#include <optional>

namespace space {
namespace {

struct Verdict {
  Remedy remedy;
  std::string_view cause;
};

constexpr std::string_view died_unseen = "its VMM ended while the sandbox manager was not running";

// What it needs is on the pool: a VMM is of no use to it, whether its start, its end or nothing was under
// way.
bool keeps_itself(const Recorded& recorded, const Holdings& held) {
  if (may_rest(recorded.state)) return recorded.memory != MemoryPlace::vmm;
  return is_stop(recorded.state, recorded.wanted) && !held.vmm;
}

std::optional<Verdict> judge_failed(const Recorded& recorded, const Holdings& held) {
  if (!keeps_disk(recorded.state, recorded.memory) && held.any())
    return Verdict{Remedy::remove_leftovers, {}};
  if (held.vmm || held.slot || held.vmm_exit) return Verdict{Remedy::release_vmm, {}};
  return std::nullopt;
}

std::optional<Verdict> judge(const Recorded& recorded, const Holdings& held) {
  if (is_deletion(recorded.wanted) || is_end(recorded.state)) return Verdict{Remedy::finish_deletion, {}};
  // Without the caller's token, which is never written down, a half-built sandbox cannot be completed.
  if (half_built(recorded.state))
    return Verdict{Remedy::mark_failed,
                   "the sandbox manager was restarted while the sandbox was being started"};
  if (is_to_boot(recorded.state, recorded.wanted)) return Verdict{Remedy::recover, {}};
  if (keeps_itself(recorded, held)) {
    if (held.vmm || held.slot || held.vmm_exit || in_transition(recorded.state))
      return Verdict{Remedy::release_vmm, {}};
    return std::nullopt;
  }
  if (expects_vmm(recorded.state)) {
    if (held.vmm) return Verdict{Remedy::adopt, {}};
    const bool ends = recorded.recovery == RecoveryPolicy::none;
    return Verdict{ends ? Remedy::mark_failed : Remedy::recover, died_unseen};
  }
  // A VMM that is there was started by a recovery that did not get to its end.
  if (recovers(recorded.state)) return Verdict{Remedy::recover, {}};
  if (is_failed(recorded.state)) return judge_failed(recorded, held);
  return std::nullopt;
}

}  // namespace

std::vector<Action> reconcile(const std::map<std::string, Recorded>& journal,
                              const std::map<std::string, Holdings>& kernel) {
  std::vector<Action> actions;
  std::map<std::string, Holdings> orphans = kernel;
  for (const auto& [id, recorded] : journal) {
    const auto held = kernel.find(id);
    orphans.erase(id);
    if (auto verdict = judge(recorded, held == kernel.end() ? Holdings{} : held->second))
      actions.push_back({id, verdict->remedy, verdict->cause});
  }
  for (const auto& [id, held] : orphans)
    if (held.any()) actions.push_back({id, Remedy::remove_orphan, {}});
  std::ranges::sort(actions, {}, &Action::id);
  return actions;
}

}  // namespace space
