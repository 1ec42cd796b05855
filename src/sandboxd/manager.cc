#include "sandboxd/manager.h"

#include "base/ids.h"
#include "base/log.h"
#include "core/capacity.h"
#include "core/tenancy.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis replace_limit = 30s;
constexpr std::size_t team_bytes_max = 64;

Result<void> check(const CreateRequest& request) {
  if (!is_sandbox_id(request.id)) return fail(Code::invalid_argument, "id is not a sandbox id");
  if (!is_digest(request.template_digest)) return fail(Code::invalid_argument, "template is not a digest");
  if (request.team.empty() || request.team.size() > team_bytes_max)
    return fail(Code::invalid_argument, "team is not a team's id");
  return check_shape(request.shape);
}

}  // namespace

Manager::Manager(Machine::Host host, Journal& journal, EventLog& events, SandboxLogs& logs,
                 SandboxMeter::Pace pace, Limits limits, KsmSwitch ksm)
    : host_(std::move(host)),
      journal_(journal),
      events_(events),
      logs_(logs),
      pace_(pace),
      limits_(limits),
      ksm_(std::move(ksm)) {}

std::shared_ptr<Sandbox> Manager::add(SandboxRecord record) {
  Sandbox::Node node{host_, journal_, events_,
                     logs_, pace_,    [this](const std::string& id) { sandboxes_.erase(id); }};
  const std::string id = record.id;
  return sandboxes_[id] = Sandbox::make(std::move(node), std::move(record));
}

Task<Result<void>> Manager::reconcile(Deadline deadline) {
  SPACE_CO_TRY(const KernelHoldings kernel, co_await host_.noded.list(deadline));
  SPACE_CO_TRY(std::vector<SandboxRecord> records, journal_.sandboxes());
  std::map<std::string, Recorded> recorded;
  for (SandboxRecord& record : records) {
    recorded[record.id] = {record.state, record.wanted};
    add(std::move(record));
  }
  const std::vector<Action> actions = space::reconcile(recorded, kernel.sandboxes);
  std::map<std::string, Remedy> remedies;
  for (const Action& action : actions) remedies[action.id] = action.remedy;
  for (const auto& [id, sandbox] : sandboxes_)
    if (!remedies.contains(id)) sandbox->rest();
  for (const Action& action : actions) apply(action);
  log::info("reconciled",
            {{"recorded", recorded.size()}, {"held", kernel.sandboxes.size()}, {"actions", actions.size()}});
  co_return Result<void>();
}

void Manager::apply(const Action& action) {
  switch (action.remedy) {
    case Remedy::adopt:
      return sandboxes_.at(action.id)->adopt();
    case Remedy::finish_deletion:
      return sandboxes_.at(action.id)->finish_deletion();
    case Remedy::mark_failed:
      return sandboxes_.at(action.id)->mark_failed(std::string(action.cause));
    case Remedy::remove_leftovers:
      return sandboxes_.at(action.id)->remove_leftovers();
    case Remedy::remove_orphan: {
      log::warn("orphan found", {{"sandbox", action.id}});
      SandboxRecord orphan;
      orphan.id = action.id;
      return add(std::move(orphan))->finish_deletion();
    }
  }
}

Task<Result<std::shared_ptr<Sandbox>>> Manager::create(CreateRequest request,
                                                       MachineAccelerator accelerator) {
  SPACE_CO_CHECK(check(request));
  if (const auto found = sandboxes_.find(request.id); found != sandboxes_.end()) {
    const std::shared_ptr<Sandbox> existing = found->second;
    const SandboxRecord& record = existing->record();
    if (!existing->being_deleted() && record.generation == request.generation) {
      SPACE_CO_CHECK(co_await existing->started());
      co_return existing;
    }
    if (!existing->being_deleted() && !(is_failed(record.state) && record.generation < request.generation))
      co_return fail(Code::conflict, "sandbox {} is here in generation {} and {}", request.id,
                     record.generation, to_string(record.state));
    SPACE_CO_CHECK(co_await existing->remove(Deadline::after(replace_limit)));
    // Another request may have come first while this one waited.
    if (sandboxes_.contains(request.id))
      co_return fail(Code::conflict, "sandbox {} is being created by another request", request.id);
  }
  SPACE_CO_CHECK(admit(request, accelerator));
  SandboxRecord record;
  record.id = request.id;
  record.generation = request.generation;
  record.template_digest = request.template_digest;
  record.shape = request.shape;
  record.team = request.team;
  record.accelerator = accelerator;
  SPACE_CO_CHECK(journal_.insert(record));
  const std::shared_ptr<Sandbox> sandbox = add(std::move(record));
  sandbox->start(std::move(request.guest_init), accelerator);
  SPACE_CO_CHECK(co_await sandbox->started());
  co_return sandbox;
}

// Beside every sandbox that has or will have a VMM.
Result<void> Manager::admit(const CreateRequest& request, MachineAccelerator accelerator) const {
  std::int64_t committed_mib = 0;
  std::set<std::string> teams;
  for (const auto& [id, sandbox] : sandboxes_) {
    const SandboxRecord& record = sandbox->record();
    if (!expects_vmm(record.state) && !half_built(record.state) && sandbox->pid() == 0) continue;
    committed_mib += memory_cost_mib(record.shape);
    teams.insert(record.team);
  }
  SPACE_CHECK(ksm_.check_off());
  SPACE_CHECK(admit_team(request.team, teams, accelerator, limits_.allow_tcg_multitenant));
  return admit_memory(request.shape, committed_mib, limits_.memory_mib);
}

Task<Result<void>> Manager::remove(std::string id, Deadline deadline) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) co_return Result<void>();
  const std::shared_ptr<Sandbox> sandbox = found->second;
  co_return co_await sandbox->remove(deadline);
}

std::shared_ptr<Sandbox> Manager::find(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() || found->second->being_deleted() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Sandbox>> Manager::list() const {
  std::vector<std::shared_ptr<Sandbox>> result;
  for (const auto& [id, sandbox] : sandboxes_)
    if (!sandbox->being_deleted()) result.push_back(sandbox);
  return result;
}

}  // namespace space
