#include "sandboxd/template_checkpoints.h"

#include "base/ids.h"
#include "base/log.h"
#include "sandboxd/plan_runner.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis verb_limit = 10s;
constexpr Millis build_turn_limit = 5min;
constexpr Millis manifest_limit = 10s;
constexpr Millis warm_limit = 60s;
// Long: it costs a template's build only.
constexpr Millis hang_up_noticed = 500ms;
constexpr Millis checkpoint_limit = 5min;

GuestInit builder_init(const JsonObject& manifest) {
  GuestInit init;
  init.default_user = text_member(manifest, "default_user").value_or(std::nullopt);
  init.default_workdir = text_member(manifest, "default_workdir").value_or(std::nullopt);
  return init;
}

std::string member_of(const JsonObject& manifest, const char* object, const char* member) {
  const auto inner = object_member(manifest, object);
  if (!inner || *inner == nullptr) return "";
  return text_member(**inner, member).value_or(std::nullopt).value_or("");
}

}  // namespace

TemplateCheckpoints::TemplateCheckpoints(Parts parts)
    : parts_(std::move(parts)), built_(parts_.host.executor) {}

Task<Result<void>> TemplateCheckpoints::take_over(const KernelHoldings& held,
                                                  MachineAccelerator accelerator) {
  SPACE_CO_TRY(const auto recorded, parts_.journal.template_checkpoints());
  for (const TemplateCheckpoint& checkpoint : recorded) {
    const SnapshotId snapshot{checkpoint.builder, 1};
    const auto usable = held.snapshots.contains(checkpoint.builder)
                            ? co_await check(snapshot, accelerator)
                            : Result<void>(fail(Code::not_found, "it is not on the pool"));
    if (usable) {
      ready_[{checkpoint.template_digest, checkpoint.shape}] = snapshot;
      (void)co_await parts_.templates.get(checkpoint.template_digest, Deadline::after(verb_limit));
      continue;
    }
    log::warn("template checkpoint not used",
              {{"template", checkpoint.template_digest}, log::Field(usable.error())});
    SPACE_CO_CHECK(parts_.journal.erase_template_checkpoint(checkpoint.builder));
    retired_.insert(snapshot);
  }
  co_return Result<void>();
}

Task<Result<void>> TemplateCheckpoints::check(SnapshotId snapshot, MachineAccelerator accelerator) {
  SPACE_CO_TRY(const SnapshotFiles files,
               co_await parts_.host.noded.snapshot_open(snapshot.sandbox, snapshot.number,
                                                        Deadline::after(verb_limit)));
  co_return check_restorable_here(parts_.host, files.manifest, accelerator);
}

std::optional<SnapshotId> TemplateCheckpoints::find(const VmKind& kind) const {
  const auto found = ready_.find(kind);
  if (found == ready_.end()) return std::nullopt;
  return found->second;
}

Task<Result<SnapshotId>> TemplateCheckpoints::ensure(VmKind kind, MachineAccelerator accelerator) {
  while (under_way_.contains(kind)) co_await built_.wait();
  if (const auto ready = find(kind)) co_return *ready;
  under_way_.insert(kind);
  auto built = co_await build(kind, accelerator);
  under_way_.erase(kind);
  built_.notify_all();
  if (!built)
    log::warn("template checkpoint not made",
              {{"template", kind.template_digest}, log::Field(built.error())});
  co_return built;
}

Task<Result<SnapshotId>> TemplateCheckpoints::build(VmKind kind, MachineAccelerator accelerator) {
  const Monotonic begun = system_clock().monotonic();
  SPACE_CO_TRY(const JsonObject manifest,
               co_await parts_.templates.get(kind.template_digest, Deadline::after(manifest_limit)));
  SPACE_CO_TRY(const auto turn, co_await parts_.starts.enter(Deadline::after(build_turn_limit)));
  SandboxRecord record;
  record.id = new_sandbox_id();
  record.template_digest = kind.template_digest;
  record.shape = kind.shape;
  record.accelerator = accelerator;
  builders_.insert(record.id);
  const auto epoch = std::make_shared<std::uint64_t>(0);
  const auto machine = std::make_shared<Machine>(
      parts_.host, record.id, ChannelLink::Hooks{[epoch] { return Result<std::uint64_t>(++*epoch); }, [] {}});
  machine->set_guest_init(builder_init(manifest));
  PlanOutcome outcome =
      co_await run_plan(plan_cold_start({kind.template_digest, kind.shape, accelerator, true}), *machine);
  Result<void> captured = std::move(outcome.started);
  if (captured) {
    captured = co_await capture(machine, record);
    outcome.unwound = co_await unwind(undo_everything(), *machine);
  }
  builders_.erase(record.id);
  if (!outcome.unwound) log::warn("a builder was not removed", {log::Field(outcome.unwound.error())});
  SPACE_CO_CHECK(captured);
  SPACE_CO_CHECK(parts_.journal.add_template_checkpoint({kind.template_digest, kind.shape, record.id}));
  ready_[kind] = {record.id, 1};
  log::info("template checkpoint made",
            {{"template", kind.template_digest},
             {"memory_mib", kind.shape.memory_mib},
             {"ms", std::chrono::duration_cast<Millis>(system_clock().monotonic() - begun).count()}});
  co_return SnapshotId{record.id, 1};
}

Task<Result<void>> TemplateCheckpoints::capture(std::shared_ptr<Machine> machine, SandboxRecord record) {
  const Deadline deadline = Deadline::after(checkpoint_limit);
  SPACE_CO_CHECK(co_await machine->warm(true, Deadline::after(warm_limit)));
  // Not frozen it would go on in every copy before it is told that it is one.
  if (!co_await machine->quiesce(true))
    co_return fail(Code::unavailable, "the guest of the template did not freeze its programs");
  // Whoever is restored from it waits for a host and need not notice first that this one is gone.
  machine->channel()->close();
  co_await sleep_for(hang_up_noticed);
  SPACE_CO_CHECK(co_await machine->stop_vcpus(deadline));
  CheckpointSpec spec;
  spec.id = {record.id, 1};
  spec.manifest = describe(record);
  SPACE_CO_CHECK(co_await checkpoint_stopped(machine, parts_.desk, std::move(spec), true, deadline));
  co_return Result<void>();
}

vmm::SnapshotManifest TemplateCheckpoints::describe(const SandboxRecord& record) const {
  vmm::SnapshotManifest manifest;
  manifest.sandbox = record.id;
  manifest.template_digest = record.template_digest;
  manifest.shape = {record.shape.vcpus, record.shape.memory_mib, record.shape.disk_mib};
  manifest.accelerator = to_vmm(record.accelerator);
  manifest.cpu = parts_.host.cpu_model(record.accelerator);
  manifest.generation = record.counter;
  if (const JsonObject* known = parts_.templates.known(record.template_digest)) {
    manifest.kernel_sha256 = member_of(*known, "kernel", "sha256");
    manifest.initramfs_sha256 = member_of(*known, "initramfs", "sha256");
    manifest.daemon = member_of(*known, "initramfs", "daemon_version");
  }
  return manifest;
}

void TemplateCheckpoints::retire(const std::string& template_digest) {
  for (auto entry = ready_.begin(); entry != ready_.end();) {
    if (entry->first.template_digest != template_digest) {
      ++entry;
      continue;
    }
    if (const auto erased = parts_.journal.erase_template_checkpoint(entry->second.sandbox); !erased)
      log::error("journal write failed", {log::Field(erased.error())});
    retired_.insert(entry->second);
    entry = ready_.erase(entry);
  }
}

Task<void> TemplateCheckpoints::collect(std::set<SnapshotId> needed) {
  const std::set<SnapshotId> candidates = retired_;
  for (const SnapshotId& snapshot : candidates) {
    if (needed.contains(snapshot)) continue;
    const auto removed = co_await parts_.host.noded.snapshot_remove(snapshot.sandbox, snapshot.number,
                                                                    Deadline::after(verb_limit));
    if (removed)
      retired_.erase(snapshot);
    else
      log::warn("retired checkpoint not removed", {log::Field(removed.error())});
  }
}

}  // namespace space
