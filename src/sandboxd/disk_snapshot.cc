#include "sandboxd/disk_snapshot.h"

#include <fcntl.h>

#include "base/bytes.h"
#include "base/log.h"
#include "sandboxd/faults.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis freeze_limit = 4s;  // a guest under emulation on a crowded machine flushes slowly
constexpr Millis undo_limit = 10s;

std::int64_t micros_between(Monotonic from, Monotonic to) {
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

Task<Result<Fd>> copy_disk(NodedClient& noded, SnapshotId id, Deadline deadline) {
  SPACE_CO_CHECK(fail_if(Fault::fail_snapshot_begin, Code::internal));
  co_return co_await noded.snapshot_begin_disk(id.sandbox, id.number, deadline);
}

// On a worker thread.
Result<void> write_manifest(const Fd& file, const vmm::SnapshotManifest& manifest) {
  SPACE_CHECK(fail_if(Fault::eio_manifest, Code::internal));
  SPACE_CHECK(write_all(file.get(), as_bytes(vmm::to_text(manifest))));
  // Only to the device: the commit that finishes the snapshot makes all of it durable.
  constexpr unsigned int all =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(file.get(), 0, 0, all) != 0) return fail_errno(errno, "write the manifest");
  return {};
}

// The copy is there; the VM is none of its affair any more.
Task<Result<SnapshotRecord>> complete(std::shared_ptr<Machine> machine, CheckpointSpec spec, Fd file,
                                      Deadline deadline) {
  const Wall now = system_clock().wall();
  spec.manifest.kind = SnapshotKind::disk;
  spec.manifest.created_at = to_rfc3339(now);
  spec.manifest.quiesced = spec.record.quiesced;
  spec.manifest.qemu = machine->qemu_version();
  const auto written = co_await run_blocking([&] { return write_manifest(file, spec.manifest); });
  if (!written) co_return std::unexpected(written.error());
  crash_point("disk-finish");
  SPACE_CO_CHECK(fail_if(Fault::fail_snapshot_finish, Code::internal));
  SPACE_CO_CHECK(
      co_await machine->host().noded.snapshot_finish(spec.id.sandbox, spec.id.number, deadline, false));
  crash_point("disk-finished");
  SnapshotRecord record = std::move(spec.record);
  record.sandbox = spec.id.sandbox;
  record.number = spec.id.number;
  record.kind = SnapshotKind::disk;
  record.created_at = now;
  co_return record;
}

// The first copy says that the disk stood still, and the guest that it did not: one that does not say so
// takes its place.
Task<Result<SnapshotRecord>> take_again(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                        Deadline deadline) {
  NodedClient& noded = machine->host().noded;
  SPACE_CO_CHECK(co_await noded.snapshot_remove(spec.id.sandbox, spec.id.number, deadline));
  spec.record.quiesced = false;
  SPACE_CO_TRY(Fd file, co_await copy_disk(noded, spec.id, deadline));
  co_return co_await complete(std::move(machine), std::move(spec), std::move(file), deadline);
}

// The guest lets its disk go and says whether it was held until then. Asked beside the work on the copy,
// which takes as long as a guest does to answer.
struct Thaw {
  explicit Thaw(const Executor& executor) : told(executor) {}
  Event told;
  std::optional<bool> held;
  Monotonic at{};
};

Task<void> thaw_beside(std::shared_ptr<Machine> machine, std::shared_ptr<Thaw> thaw) {
  const bool held = co_await machine->thaw_disk();
  thaw->at = system_clock().monotonic();
  thaw->held = held;
  thaw->told.notify_all();
}

// A guest that runs is let go whatever became of the copy, and has answered when this is over.
Task<Result<SnapshotRecord>> take_of_running(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                             Deadline deadline) {
  const Monotonic begun = system_clock().monotonic();
  spec.record.quiesced = co_await machine->freeze_disk(deadline.at_most(freeze_limit));
  const Monotonic frozen_at = system_clock().monotonic();
  crash_point("disk-frozen");
  auto file = co_await copy_disk(machine->host().noded, spec.id, deadline);
  const Monotonic copied_at = system_clock().monotonic();
  crash_point("disk-copied");
  // Also where it said nothing: it may have heard.
  const auto thaw = std::make_shared<Thaw>(machine->host().executor);
  spawn(machine->host().executor, "thaw of a disk", thaw_beside(machine, thaw));
  auto taken = file ? co_await complete(machine, spec, *std::move(file), deadline)
                    : Result<SnapshotRecord>(std::unexpected(file.error()));
  const Monotonic sealed_at = system_clock().monotonic();
  while (!thaw->held) co_await thaw->told.wait();
  log::debug("disk snapshot step by step", {{"sandbox", spec.id.sandbox},
                                            {"freeze_us", micros_between(begun, frozen_at)},
                                            {"copy_us", micros_between(frozen_at, copied_at)},
                                            {"thaw_us", micros_between(copied_at, thaw->at)},
                                            {"seal_us", micros_between(copied_at, sealed_at)}});
  if (taken && taken->quiesced && !*thaw->held) taken = co_await take_again(machine, spec, deadline);
  if (taken) taken->stop_window_us = micros_between(frozen_at, thaw->at);
  co_return taken;
}

Task<Result<SnapshotRecord>> take_of_still(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                           Deadline deadline) {
  SPACE_CO_TRY(Fd file, co_await copy_disk(machine->host().noded, spec.id, deadline));
  co_return co_await complete(std::move(machine), std::move(spec), std::move(file), deadline);
}

}  // namespace

Task<Result<SnapshotRecord>> take_disk_snapshot(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                                DiskUse use, bool quiesced, Deadline deadline) {
  NodedClient& noded = machine->host().noded;
  const SnapshotId id = spec.id;
  const Monotonic begun = system_clock().monotonic();
  spec.record.quiesced = quiesced;
  spec.record.stop_window_us = 0;
  auto taken = use == DiskUse::running ? co_await take_of_running(machine, std::move(spec), deadline)
                                       : co_await take_of_still(machine, std::move(spec), deadline);
  if (!taken) {
    const auto removed = co_await noded.snapshot_remove(id.sandbox, id.number, Deadline::after(undo_limit));
    if (!removed)
      log::warn("what was made of a snapshot is still there",
                {{"sandbox", id.sandbox}, log::Field(removed.error())});
    co_return taken;
  }
  log::info("disk snapshot taken", {{"sandbox", id.sandbox},
                                    {"number", id.number},
                                    {"quiesced", taken->quiesced},
                                    {"held_us", taken->stop_window_us},
                                    {"us", micros_between(begun, system_clock().monotonic())}});
  co_return taken;
}

}  // namespace space
