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

std::int64_t micros_since(Monotonic start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock().monotonic() - start).count();
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
  const Monotonic begun = system_clock().monotonic();
  const auto written = co_await run_blocking([&] { return write_manifest(file, spec.manifest); });
  if (!written) co_return std::unexpected(written.error());
  const auto manifest_us = micros_since(begun);
  crash_point("disk-finish");
  SPACE_CO_CHECK(fail_if(Fault::fail_snapshot_finish, Code::internal));
  SPACE_CO_CHECK(
      co_await machine->host().noded.snapshot_finish(spec.id.sandbox, spec.id.number, deadline, false));
  log::debug("steps2", {{"manifest_us", manifest_us}, {"finish_us", micros_since(begun) - manifest_us}});
  SnapshotRecord record = std::move(spec.record);
  record.sandbox = spec.id.sandbox;
  record.number = spec.id.number;
  record.kind = SnapshotKind::disk;
  record.created_at = now;
  co_return record;
}

}  // namespace

Task<Result<SnapshotRecord>> take_disk_snapshot(std::shared_ptr<Machine> machine, CheckpointSpec spec,
                                                DiskUse use, bool quiesced, Deadline deadline) {
  NodedClient& noded = machine->host().noded;
  const SnapshotId id = spec.id;
  const Monotonic begun = system_clock().monotonic();
  const bool runs = use == DiskUse::running;
  const bool frozen = runs && co_await machine->freeze_disk(deadline.at_most(freeze_limit));
  const Monotonic held_from = system_clock().monotonic();
  crash_point("disk-frozen");
  auto file = co_await copy_disk(noded, id, deadline);
  crash_point("disk-copied");
  const auto copy_us = micros_since(held_from);
  // Also where it said nothing: it may have heard.
  const bool held = runs && co_await machine->thaw_disk();
  spec.record.stop_window_us = runs ? micros_since(held_from) : 0;
  spec.record.quiesced = runs ? frozen && held : quiesced;
  log::debug("steps1", {{"freeze_us", micros_since(begun) - micros_since(held_from)}, {"copy_us", copy_us}, {"thaw_us", micros_since(held_from) - copy_us}});
  auto taken = file ? co_await complete(machine, std::move(spec), *std::move(file), deadline)
                    : Result<SnapshotRecord>(std::unexpected(file.error()));
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
                                    {"us", micros_since(begun)}});
  co_return taken;
}

}  // namespace space
