#include "sandboxd/manager.h"

#include <algorithm>
#include <iterator>
#include <thread>

#include "base/ids.h"
#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis replace_limit = 30s;

// Restores and boots keep a core busy each; more at once make all of them late.
std::size_t starts_at_once() {
  return std::max<std::size_t>(2, std::thread::hardware_concurrency());
}

// The shape that sandboxes of a template have unless they ask for another.
Result<VmKind> default_kind(const JsonObject& manifest) {
  using namespace shape_limits;
  VmKind kind;
  SPACE_TRY(kind.template_digest, require_text(manifest, "digest"));
  SPACE_TRY(const JsonObject* shape, object_member(manifest, "shape"));
  if (shape == nullptr) return fail(Code::invalid_argument, "the template's manifest has no shape");
  SPACE_TRY(kind.shape.vcpus, require_int(*shape, "vcpus", vcpus_min, vcpus_max));
  SPACE_TRY(kind.shape.memory_mib, require_int(*shape, "memory_mib", memory_mib_min, memory_mib_max));
  SPACE_TRY(kind.shape.disk_mib, require_int(*shape, "disk_mib", disk_mib_min, disk_mib_max));
  return kind;
}

}  // namespace

Manager::Manager(Machine::Host host, Journal& journal, EventLog& events, SandboxLogs& logs,
                 Templates& templates, SandboxMeter::Pace pace, Limits limits, WarmPool::Options pool,
                 KsmSwitch ksm)
    : host_(std::move(host)),
      journal_(journal),
      events_(events),
      logs_(logs),
      pace_(pace),
      limits_(limits),
      ksm_(std::move(ksm)),
      desk_(host_.executor),
      starts_(host_.executor, starts_at_once()),
      templates_(templates),
      checkpoints_({host_, journal_, templates_, desk_, starts_}),
      pool_({host_, starts_,
             [this](VmKind kind, MachineAccelerator accelerator) {
               return source_of(std::move(kind), accelerator);
             },
             [this](const VmKind& kind) { return kind.snapshot || checkpoints_.find(kind); },
             [this](const Shape& shape) { return admit_memory_of(shape); },
             [this] { return closing_ || starts_.waiting() > 0; }},
            pool),
      shelf_({host_, journal_,
              [this] {
                std::vector<std::shared_ptr<Sandbox>> all;
                for (const auto& [id, sandbox] : sandboxes_) all.push_back(sandbox);
                return all;
              },
              [this] { return pool_.sources(); },
              [this](SnapshotId snapshot) { return pool_.drain_snapshot(std::move(snapshot)); },
              limits_.fork_keep}),
      diffs_({host_, starts_, [this](std::string team, Shape shape, MachineAccelerator accelerator) {
                return make_room(std::move(team), shape, accelerator);
              }}) {}

std::shared_ptr<Sandbox> Manager::add(SandboxRecord record) {
  Sandbox::Node node{host_,
                     journal_,
                     events_,
                     logs_,
                     pace_,
                     desk_,
                     starts_,
                     limits_.hot_keep_s,
                     [this](const SandboxRecord& r) { return admit_again(r); },
                     [this](const SandboxRecord& r) { return checkpoints_.describe(r); },
                     [this](const SnapshotId& snapshot) { return shelf_.is_needed(snapshot); },
                     [this](SnapshotRecord snapshot) { shelf_.leave_behind(std::move(snapshot)); },
                     [this](const std::string& id) {
                       sandboxes_.erase(id);
                       shelf_.look();
                       spawn(host_.executor, "collect checkpoints", checkpoints_.collect(sources()));
                     },
                     [this](const SnapshotId& snapshot) { return shelf_.used_by(snapshot); }};
  const std::string id = record.id;
  return sandboxes_[id] = Sandbox::make(std::move(node), std::move(record));
}

Task<Result<void>> Manager::reconcile(Deadline deadline) {
  SPACE_CO_TRY(held_at_start_, co_await host_.noded.list(deadline));
  SPACE_CO_TRY(std::vector<SandboxRecord> records, journal_.sandboxes());
  SPACE_CO_TRY(const std::vector<SnapshotRecord> snapshots, journal_.snapshots());
  std::map<std::string, Recorded> recorded;
  for (SandboxRecord& record : records) {
    recorded[record.id] = {record.state, record.wanted, record.memory, record.recovery};
    std::vector<SnapshotRecord> own;
    std::ranges::copy_if(snapshots, std::back_inserter(own),
                         [&](const SnapshotRecord& s) { return s.sandbox == record.id; });
    add(std::move(record))->take_over(std::move(own));
  }
  std::vector<SnapshotRecord> left;
  std::ranges::copy_if(snapshots, std::back_inserter(left),
                       [&](const SnapshotRecord& s) { return !recorded.contains(s.sandbox); });
  shelf_.take_over(left, held_at_start_);
  const std::vector<Action> actions = space::reconcile(recorded, held_at_start_.sandboxes);
  std::map<std::string, Remedy> remedies;
  for (const Action& action : actions) remedies[action.id] = action.remedy;
  for (const auto& [id, sandbox] : sandboxes_)
    if (!remedies.contains(id)) sandbox->rest();
  for (const Action& action : actions) apply(action);
  remove_unknown_snapshots(held_at_start_, snapshots);
  log::info("reconciled", {{"recorded", recorded.size()},
                           {"held", held_at_start_.sandboxes.size()},
                           {"actions", actions.size()}});
  co_return Result<void>();
}

// Snapshots that no line of the journal names: their making was interrupted, or their end was.
void Manager::remove_unknown_snapshots(const KernelHoldings& kernel,
                                       const std::vector<SnapshotRecord>& recorded) {
  std::set<SnapshotId> known = sources();
  for (const SnapshotRecord& snapshot : recorded) known.insert({snapshot.sandbox, snapshot.number});
  // Read again later; until then none of them is lost.
  if (const auto templates = journal_.template_checkpoints())
    for (const TemplateCheckpoint& checkpoint : *templates) known.insert({checkpoint.builder, 1});
  for (const auto& [sandbox, numbers] : kernel.snapshots)
    for (const std::uint64_t number : numbers)
      if (!known.contains({sandbox, number}))
        spawn(host_.executor, "remove snapshot", remove_snapshot({sandbox, number}));
}

Task<void> Manager::remove_snapshot(SnapshotId snapshot) {
  const auto removed =
      co_await host_.noded.snapshot_remove(snapshot.sandbox, snapshot.number, Deadline::after(replace_limit));
  if (removed)
    log::warn("snapshot removed that nothing knew",
              {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}});
  else
    log::warn("unknown snapshot not removed", {{"sandbox", snapshot.sandbox}, log::Field(removed.error())});
}

Task<void> Manager::keep_pool(MachineAccelerator accelerator) {
  if (const auto taken = co_await checkpoints_.take_over(held_at_start_, accelerator); !taken)
    log::error("template checkpoints not taken over", {log::Field(taken.error())});
  co_await checkpoints_.collect(sources());
  for (const std::string& digest : held_at_start_.templates) {
    const auto manifest = co_await templates_.get(digest, Deadline::after(replace_limit));
    const auto kind = manifest ? default_kind(*manifest) : std::unexpected(manifest.error());
    if (kind)
      pool_.offer(*kind);
    else
      log::warn("template has no pool", {{"template", digest}, log::Field(kind.error())});
  }
  spawn(host_.executor, "collect snapshots", shelf_.run());
  co_await pool_.run(accelerator);
}

Task<void> Manager::watch_slots(Millis pause) {
  while (true) {
    co_await sleep_for(pause);
    for (const auto& sandbox : list()) co_await sandbox->check_slot();
  }
}

Task<Result<void>> Manager::prepare(std::string digest, MachineAccelerator accelerator) {
  SPACE_CO_TRY(const JsonObject manifest, co_await templates_.get(digest, Deadline::after(replace_limit)));
  SPACE_CO_TRY(const VmKind kind, default_kind(manifest));
  SPACE_CO_CHECK(co_await checkpoints_.ensure(kind, accelerator));
  pool_.offer(kind);
  co_return Result<void>();
}

Task<void> Manager::forget_template(std::string digest) {
  checkpoints_.retire(digest);
  co_await pool_.drain(std::move(digest));
  co_await checkpoints_.collect(sources());
}

// All that somebody may still need the memory of.
std::set<SnapshotId> Manager::sources() const {
  std::set<SnapshotId> sources = pool_.sources();
  for (const auto& [id, sandbox] : sandboxes_)
    if (sandbox->record().restored_from) sources.insert(*sandbox->record().restored_from);
  return sources;
}

Task<void> Manager::shut_down(std::function<void(std::size_t done, std::size_t all)> progress) {
  closing_ = true;
  const Deadline deadline = Deadline::after(limits_.shutdown);
  const auto sandboxes = list();
  std::size_t all = 0, done = 0, ended = 0;
  for (const auto& sandbox : sandboxes)
    if (expects_vmm(sandbox->record().state, sandbox->record().memory)) ++all;
  progress(0, all);
  Event each(host_.executor);
  const auto keep = [&](std::shared_ptr<Sandbox> sandbox) -> Task<void> {
    const auto kept = co_await sandbox->keep_for_restart(deadline);
    if (!kept) log::warn("sandbox not kept", {{"sandbox", sandbox->record().id}, log::Field(kept.error())});
    if (kept) ++done;
    ++ended;
    progress(std::min(done, all), all);
    each.notify_all();
  };
  spawn(host_.executor, "close the pool", pool_.close());
  spawn(host_.executor, "end the comparison", diffs_.close());
  for (const auto& sandbox : sandboxes) spawn(host_.executor, "keep", keep(sandbox));
  while (ended < sandboxes.size()) co_await each.wait();
  co_await pool_.close();
  co_await diffs_.close();
}

void Manager::apply(const Action& action) {
  switch (action.remedy) {
    case Remedy::adopt:
      return sandboxes_.at(action.id)->adopt();
    case Remedy::finish_deletion:
      return sandboxes_.at(action.id)->finish_deletion();
    case Remedy::release_vmm:
      return sandboxes_.at(action.id)->release_vmm();
    case Remedy::recover: {
      const auto held = held_at_start_.sandboxes.find(action.id);
      const bool has_disk = held != held_at_start_.sandboxes.end() && held->second.disk;
      return sandboxes_.at(action.id)->recover(std::string(action.cause), has_disk);
    }
    case Remedy::mark_failed:
      return sandboxes_.at(action.id)->mark_failed(std::string(action.cause));
    case Remedy::remove_leftovers:
      return sandboxes_.at(action.id)->remove_leftovers();
    case Remedy::remove_orphan: {
      log::warn("orphan found", {{"sandbox", action.id}});
      SandboxRecord orphan;
      orphan.id = action.id;
      const std::shared_ptr<Sandbox> sandbox = add(std::move(orphan));
      sandbox->take_over({});
      return sandbox->finish_deletion();
    }
  }
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
