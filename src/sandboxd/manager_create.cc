// The half of Manager that lets a sandbox begin: what it begins from, whether there is room, and its start.
#include "base/ids.h"
#include "base/log.h"
#include "core/capacity.h"
#include "core/tenancy.h"
#include "sandboxd/manager.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis replace_limit = 30s;
constexpr std::size_t team_bytes_max = 64;

bool has_vmm(const Sandbox& sandbox) {
  const SandboxRecord& record = sandbox.record();
  return expects_vmm(record.state, record.memory) || half_built(record.state) || sandbox.pid() != 0;
}

Result<void> check_name(const CreateRequest& request) {
  if (!is_sandbox_id(request.id)) return fail(Code::invalid_argument, "id is not a sandbox id");
  if (request.team.empty() || request.team.size() > team_bytes_max)
    return fail(Code::invalid_argument, "team is not a team's id");
  if (request.from && (!is_sandbox_id(request.from->sandbox) || request.from->number == 0))
    return fail(Code::invalid_argument, "'from' is not a snapshot's id");
  return {};
}

Result<void> check_kind(const VmKind& kind) {
  if (!is_digest(kind.template_digest)) return fail(Code::invalid_argument, "template is not a digest");
  return check_shape(kind.shape);
}

// Named, it must be the snapshot's; left out (0), it is.
Result<void> take_from_snapshot(std::int64_t& asked, std::int64_t snapshots, const char* what) {
  if (asked != 0 && asked != snapshots)
    return fail(
        Code::invalid_argument,
        "{} is {} and cannot be changed: the snapshot has {}. Leave it out, or create from a template", what,
        asked, snapshots);
  asked = snapshots;
  return {};
}

// It is what the snapshot is.
Result<void> settle_kind(CreateRequest& request, const SnapshotRecord& snapshot) {
  if (!request.template_digest.empty() && request.template_digest != snapshot.template_digest)
    return fail(Code::invalid_argument, "the template is not the one that the snapshot comes from");
  request.template_digest = snapshot.template_digest;
  Shape& shape = request.shape;
  SPACE_CHECK(take_from_snapshot(shape.vcpus, snapshot.shape.vcpus, "vcpus"));
  SPACE_CHECK(take_from_snapshot(shape.memory_mib, snapshot.shape.memory_mib, "memory_mib"));
  return take_from_snapshot(shape.disk_mib, snapshot.shape.disk_mib, "disk_mib");
}

}  // namespace

// Whoever may not have it is told that there is none.
Result<SnapshotRecord> Manager::snapshot_for(const SnapshotId& id, const std::string& team) const {
  const SnapshotRecord* found = shelf_.find(id);
  if (found == nullptr || found->team != team)
    return fail(Code::not_found, "there is no snapshot {} of {} on this node", id.number, id.sandbox);
  if (found->kind == SnapshotKind::full && !found->quiesced)
    return fail(
        Code::conflict,
        "snapshot {} of {} is of a guest that did not stand still for it: only its own sandbox can go "
        "on from it. Take another snapshot, or roll the sandbox back to this one",
        id.number, id.sandbox);
  return *found;
}

Task<Result<VmSource>> Manager::source_of(VmKind kind, MachineAccelerator accelerator) {
  if (!kind.snapshot) {
    SPACE_CO_TRY(const SnapshotId checkpoint, co_await checkpoints_.ensure(std::move(kind), accelerator));
    co_return VmSource{{checkpoint}};
  }
  const SnapshotRecord* found = shelf_.find(*kind.snapshot);
  if (found == nullptr || !found->published) co_return fail(Code::not_found, "the snapshot was withdrawn");
  SPACE_CO_CHECK(admit(found->team, kind.shape, accelerator));
  co_return co_await open_source(host_, *kind.snapshot, found->kind, accelerator);
}

Result<VmKind> Manager::kind_of_published(const SnapshotId& snapshot) const {
  const SnapshotRecord* found = shelf_.find(snapshot);
  if (found == nullptr || !found->published || found->kind != SnapshotKind::full)
    return fail(Code::not_found, "no VM of this kind is parked");
  return VmKind{found->template_digest, found->shape, snapshot};
}

Task<Result<std::shared_ptr<Sandbox>>> Manager::find_created(std::string id, std::int64_t generation) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) co_return nullptr;
  const std::shared_ptr<Sandbox> existing = found->second;
  const SandboxRecord& record = existing->record();
  if (!existing->being_deleted() && record.generation == generation) {
    SPACE_CO_CHECK(co_await existing->started());
    co_return existing;
  }
  if (!existing->being_deleted() && !(is_failed(record.state) && record.generation < generation))
    co_return fail(Code::conflict, "sandbox {} is here in generation {} and {}", id, record.generation,
                   to_string(record.state));
  SPACE_CO_CHECK(co_await existing->remove(Deadline::after(replace_limit)));
  // Another request may have come first while this one waited.
  if (sandboxes_.contains(id))
    co_return fail(Code::conflict, "sandbox {} is being created by another request", id);
  co_return nullptr;
}

Task<Result<std::shared_ptr<Sandbox>>> Manager::create(CreateRequest request,
                                                       MachineAccelerator accelerator) {
  SPACE_CO_CHECK(check_name(request));
  SPACE_CO_TRY(const auto existing, co_await find_created(request.id, request.generation));
  if (existing) co_return existing;
  std::optional<SnapshotShelf::Loan> loan;  // until its record says that it needs the snapshot
  std::optional<VmSource> source;
  if (request.from) {
    SPACE_CO_TRY(const SnapshotRecord snapshot, snapshot_for(*request.from, request.team));
    SPACE_CO_CHECK(settle_kind(request, snapshot));
    loan.emplace(&shelf_, *request.from);
    SPACE_CO_TRY(source, co_await open_source(host_, *request.from, snapshot.kind, accelerator));
    request.guest_init.adds_env = true;
  }
  const VmKind kind{request.template_digest, request.shape, request.from};
  SPACE_CO_CHECK(check_kind(kind));
  auto parked = co_await pool_.claim(request.id, kind);  // no longer counted as the pool's
  auto admitted = co_await make_room(request.team, request.shape, accelerator);
  if (admitted && sandboxes_.contains(request.id))
    admitted = fail(Code::conflict, "sandbox {} is being created by another request", request.id);
  if (closing_) admitted = fail(Code::unavailable, "the node is being shut down");
  if (!admitted) {
    if (parked) pool_.discard(request.id, std::move(parked));
    co_return std::unexpected(admitted.error());
  }
  if (!request.from)
    if (const auto checkpoint = checkpoints_.find(kind)) source = VmSource{{*checkpoint}};
  SPACE_CO_TRY(const auto sandbox,
               begin(std::move(request), std::move(source), std::move(parked), accelerator));
  SPACE_CO_CHECK(co_await sandbox->started());
  note_fork(sandbox->record());
  co_return sandbox;
}

Result<std::shared_ptr<Sandbox>> Manager::begin(CreateRequest request, std::optional<VmSource> source,
                                                std::shared_ptr<Machine> parked,
                                                MachineAccelerator accelerator) {
  SandboxRecord record;
  record.id = request.id;
  record.generation = request.generation;
  record.template_digest = request.template_digest;
  record.shape = request.shape;
  record.team = request.team;
  record.accelerator = accelerator;
  record.policy = request.policy;
  record.schedule = std::move(request.schedule);
  record.recovery = request.recovery.value_or(limits_.recovery);
  record.origin = request.from;
  record.egress = std::move(request.egress.policy);
  record.egress_generation = request.egress.generation;
  if (source) record.counter = source->generation;
  if (source && source->start.kind == SnapshotKind::full) record.restored_from = source->start.snapshot;
  if (!parked) SPACE_CHECK(journal_.insert(record));
  const std::shared_ptr<Sandbox> sandbox = add(std::move(record));
  if (parked) {
    sandbox->bind(std::move(parked), std::move(request.guest_init));
    return sandbox;
  }
  std::optional<StartSource> from;
  if (source) from = std::move(source->start);
  sandbox->start(std::move(request.guest_init), std::move(from));
  return sandbox;
}

// In the history of its source. Of a published snapshot it would be one line among thousands.
void Manager::note_fork(const SandboxRecord& child) {
  const SnapshotRecord* snapshot = child.origin ? shelf_.find(*child.origin) : nullptr;
  if (snapshot == nullptr || snapshot->published || !sandboxes_.contains(snapshot->sandbox)) return;
  const HistoryRow row{.sandbox = snapshot->sandbox,
                       .at = system_clock().wall(),
                       .kind = HistoryKind::fork,
                       .number = snapshot->number,
                       .other = child.id,
                       .text = fmt::format("sandbox {} began from snapshot {}", child.id, snapshot->number)};
  if (const auto written = journal_.commit({.history = {row}}); !written)
    log::error("journal write failed", {{"sandbox", row.sandbox}, log::Field(written.error())});
}

std::int64_t Manager::committed_mib() const {
  std::int64_t committed = pool_.committed_mib() + diffs_.committed_mib();
  for (const auto& [id, sandbox] : sandboxes_)
    if (has_vmm(*sandbox)) committed += memory_cost_mib(sandbox->record().shape);
  return committed;
}

// Beside every sandbox that has or will have a VMM.
Result<void> Manager::admit(const std::string& team, const Shape& shape,
                            MachineAccelerator accelerator) const {
  std::set<std::string> teams = diffs_.teams();
  for (const auto& [id, sandbox] : sandboxes_)
    // Whatever is on its way out belongs to nobody any more: an orphan has no team to compare with.
    if (has_vmm(*sandbox) && !sandbox->record().team.empty()) teams.insert(sandbox->record().team);
  SPACE_CHECK(ksm_.check_off());
  SPACE_CHECK(admit_team(team, teams, accelerator, limits_.allow_tcg_multitenant));
  return admit_memory_of(shape);
}

Result<void> Manager::admit_memory_of(const Shape& shape) const {
  return admit_memory(shape, committed_mib(), limits_.memory_mib);
}

// A VM for a sandbox that had none.
Result<void> Manager::admit_again(const SandboxRecord& record) const {
  return admit(record.team, record.shape, record.accelerator);
}

// Parked VMs give way to those that somebody wants; those of another team's snapshot also where teams must
// not share the machine.
Task<Result<void>> Manager::make_room(std::string team, Shape shape, MachineAccelerator accelerator) {
  while (true) {
    auto admitted = admit(team, shape, accelerator);
    if (admitted) break;
    if (admitted.error().code != Code::exhausted) co_return admitted;
    if (!co_await pool_.evict_one()) co_return admitted;
  }
  for (const SnapshotId& parked : pool_.sources()) {
    const SnapshotRecord* snapshot = shelf_.find(parked);
    if (snapshot != nullptr &&
        !admit_team(team, {snapshot->team}, accelerator, limits_.allow_tcg_multitenant))
      co_await pool_.drain_snapshot(parked);
  }
  co_return admit(team, shape, accelerator);
}

}  // namespace space
