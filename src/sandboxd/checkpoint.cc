#include "sandboxd/checkpoint.h"

#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/log.h"
#include "sandboxd/faults.h"
#include "sandboxd/host_memory.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mib_bytes = 1 << 20;
constexpr Millis undo_limit = 10s;
constexpr std::uint64_t stage_limit_max = std::uint64_t{1} << 30;
// What the buffer may keep between two checkpoints.
constexpr std::size_t buffer_kept_bytes = 16 * mib_bytes;

std::int64_t micros_since(Monotonic start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock().monotonic() - start).count();
}

// The work of one checkpoint, step by step; a failed step leaves the rest to `take_back`.
class Taking {
 public:
  Taking(std::shared_ptr<Machine> machine, CheckpointDesk& desk, CheckpointSpec spec, Deadline deadline)
      : machine_(std::move(machine)),
        noded_(machine_->host().noded),
        desk_(desk),
        spec_(std::move(spec)),
        deadline_(deadline) {
    options_.memory_bytes = static_cast<std::uint64_t>(spec_.manifest.shape.memory_mib) * mib_bytes;
    options_.stage_limit_bytes = desk.stage_limit_bytes;
  }

  // Everything that needs no standstill.
  Task<Result<void>> prepare();
  // While the VM stands still.
  Task<Result<void>> capture();
  // The VM may run again.
  Task<Result<SnapshotRecord>> write(bool quiesced, std::int64_t stop_window_us, bool goes_on);
  Task<void> take_back();

 private:
  vmm::MemoryFds memory() const { return {memory_.mem.get(), memory_.maps.get(), memory_.pagemap.get()}; }
  Task<Result<void>> copy_disk();
  Task<Result<void>> copy_state();
  Task<Result<void>> stage_pages();
  Task<Result<void>> write_files();
  Result<void> write_pages();
  Result<void> write_state_and_manifest();

  std::shared_ptr<Machine> machine_;
  NodedClient& noded_;
  CheckpointDesk& desk_;
  CheckpointSpec spec_;
  Deadline deadline_;
  vmm::MemoryCapture::Options options_;
  VmmMemory memory_;
  SnapshotFiles files_;
  std::string state_;
  std::optional<vmm::MemoryCapture> pages_;
  vmm::CaptureStats stats_;
};

Task<Result<void>> Taking::prepare() {
  SPACE_CO_TRY(memory_, co_await noded_.vmm_open_memory(spec_.id.sandbox, deadline_));
  const Monotonic begun = system_clock().monotonic();
  // Populated now, so that the pages cost no fault while the VM stands still.
  const auto grown = co_await run_blocking([this]() -> Result<void> {
    SPACE_TRY(const std::uint64_t bytes, vmm::MemoryCapture::private_bytes(memory(), options_));
    return desk_.buffer.grow(std::min(bytes + bytes / 8, options_.stage_limit_bytes));
  });
  log::debug("staging memory is there", {{"sandbox", spec_.id.sandbox}, {"us", micros_since(begun)}});
  co_return grown;
}

Task<Result<void>> Taking::copy_disk() {
  SPACE_CO_CHECK(fail_if(Fault::fail_snapshot_begin, Code::internal));
  SPACE_CO_TRY(files_,
               co_await noded_.snapshot_begin(spec_.id.sandbox, spec_.id.number, spec_.previous, deadline_));
  co_return Result<void>();
}

Task<Result<void>> Taking::copy_state() {
  SPACE_CO_CHECK(fail_if(Fault::fail_device_state, Code::internal));
  SPACE_CO_TRY(state_, co_await machine_->save_device_state(deadline_));
  co_return Result<void>();
}

Task<Result<void>> Taking::stage_pages() {
  auto staged =
      co_await run_blocking([this] { return vmm::MemoryCapture::stage(memory(), options_, desk_.buffer); });
  SPACE_CO_CHECK(staged);
  pages_ = *std::move(staged);
  co_return Result<void>();
}

// The disk is copied by another process while this one copies devices and memory.
Task<Result<void>> Taking::capture() {
  const Monotonic begun = system_clock().monotonic();
  std::optional<Result<void>> disk;
  Event disk_done(machine_->host().executor);
  const auto copy_beside = [&]() -> Task<void> {
    disk = co_await copy_disk();
    disk_done.notify_all();
  };
  if (!is_on(Fault::cont_before_clone)) spawn(machine_->host().executor, "disk copy", copy_beside());
  auto memory_done = co_await copy_state();
  if (memory_done) memory_done = co_await stage_pages();
  const std::int64_t staged_us = micros_since(begun);
  if (is_on(Fault::cont_before_clone)) {
    (void)co_await machine_->cont_vcpus(deadline_);
    co_await machine_->thaw();
    co_await sleep_for(100ms);
    co_await copy_beside();
  }
  while (!disk) co_await disk_done.wait();
  if (*disk && memory_done && !pages_->complete())
    memory_done =
        co_await run_blocking([this] { return pages_->write_unstaged(memory(), files_.memory.get()); });
  log::debug("checkpoint captured",
             {{"sandbox", spec_.id.sandbox}, {"staged_us", staged_us}, {"us", micros_since(begun)}});
  if (!memory_done) co_return memory_done;
  co_return *disk;
}

// On a worker thread.
Result<void> Taking::write_pages() {
  SPACE_CHECK(fail_if(Fault::enospc_pages, Code::exhausted));
  SPACE_CHECK(fail_if(Fault::eio_pages, Code::internal));
  SPACE_TRY(stats_, pages_->write(files_.memory.get()));
  return {};
}

// On a worker thread.
Result<void> Taking::write_state_and_manifest() {
  SPACE_CHECK(fail_if(Fault::eio_vmstate, Code::internal));
  SPACE_CHECK(write_all(files_.state.get(), as_bytes(state_)));
  SPACE_CHECK(fail_if(Fault::eio_manifest, Code::internal));
  SPACE_CHECK(write_all(files_.manifest.get(), as_bytes(vmm::to_text(spec_.manifest))));
  if (::fdatasync(files_.state.get()) != 0) return fail_errno(errno, "sync the devices' state");
  if (::fdatasync(files_.manifest.get()) != 0) return fail_errno(errno, "sync the manifest");
  return {};
}

// The pool takes what is synced at the same time in one go, so the small files cost next to nothing beside
// the memory. Nothing of it counts before the snapshot is finished.
Task<Result<void>> Taking::write_files() {
  std::optional<Result<void>> beside;
  Event beside_done(machine_->host().executor);
  const auto write_beside = [&]() -> Task<void> {
    beside = co_await run_blocking([this] { return write_state_and_manifest(); });
    beside_done.notify_all();
  };
  spawn(machine_->host().executor, "snapshot's small files", write_beside());
  auto written = co_await run_blocking([this] { return write_pages(); });
  while (!beside) co_await beside_done.wait();
  if (!written) co_return written;
  co_return *beside;
}

Task<Result<SnapshotRecord>> Taking::write(bool quiesced, std::int64_t stop_window_us, bool goes_on) {
  spec_.manifest.qemu = machine_->qemu_version();
  const Wall now = system_clock().wall();
  spec_.manifest.created_at = to_rfc3339(now);
  crash_point("checkpoint-write");
  spec_.manifest.quiesced = quiesced;
  SPACE_CO_CHECK(co_await write_files());
  desk_.buffer.shrink(buffer_kept_bytes);
  crash_point("checkpoint-finish");
  SPACE_CO_CHECK(fail_if(Fault::fail_snapshot_finish, Code::internal));
  SPACE_CO_CHECK(co_await noded_.snapshot_finish(spec_.id.sandbox, spec_.id.number, deadline_, goes_on));
  SnapshotRecord record = spec_.record;
  record.sandbox = spec_.id.sandbox;
  record.number = spec_.id.number;
  record.kind = SnapshotKind::full;
  record.created_at = now;
  record.quiesced = quiesced;
  record.memory_bytes = static_cast<std::int64_t>(stats_.private_pages * vmm::page_bytes);
  record.dirty_bytes = static_cast<std::int64_t>(stats_.dirty_pages * vmm::page_bytes);
  record.written_bytes = static_cast<std::int64_t>(stats_.written_bytes);
  record.stop_window_us = stop_window_us;
  log::info("checkpoint taken", {{"sandbox", record.sandbox},
                                 {"number", record.number},
                                 {"quiesced", quiesced},
                                 {"stop_us", stop_window_us},
                                 {"stage_us", stats_.stage_us},
                                 {"write_us", stats_.write_us},
                                 {"dirty_bytes", record.dirty_bytes},
                                 {"written_bytes", record.written_bytes}});
  co_return record;
}

Task<void> Taking::take_back() {
  files_ = {};
  const auto removed =
      co_await noded_.snapshot_remove(spec_.id.sandbox, spec_.id.number, Deadline::after(undo_limit));
  if (!removed)
    log::warn("what was made of a snapshot is still there",
              {{"sandbox", spec_.id.sandbox}, log::Field(removed.error())});
}

}  // namespace

CheckpointDesk::CheckpointDesk(const Executor& executor)
    : turns(executor, 1),
      stage_limit_bytes(
          std::min(stage_limit_max, static_cast<std::uint64_t>(host_memory_mib()) * mib_bytes / 4)) {}

Task<Result<SnapshotRecord>> checkpoint_running(std::shared_ptr<Machine> machine, CheckpointDesk& desk,
                                                CheckpointSpec spec, Deadline deadline) {
  SPACE_CO_TRY(const auto turn, co_await desk.turns.enter(deadline));
  Taking taking(machine, desk, std::move(spec), deadline);
  SPACE_CO_CHECK(co_await taking.prepare());
  // A first flush with everything running: the one in the stop window then finds little left to do.
  const bool quiesced = co_await machine->quiesce(true);
  crash_point("checkpoint-quiesced");
  const Monotonic stopped_at = system_clock().monotonic();
  auto captured = co_await machine->stop_vcpus(deadline);
  crash_point("checkpoint-stopped");
  if (captured) captured = co_await taking.capture();
  const auto continued = co_await machine->cont_vcpus(Deadline::after(undo_limit));
  const std::int64_t window = micros_since(stopped_at);
  co_await machine->thaw();
  auto record = [&]() -> Task<Result<SnapshotRecord>> {
    SPACE_CO_CHECK(captured);
    SPACE_CO_CHECK(continued);
    co_return co_await taking.write(quiesced, window, true);
  };
  auto taken = co_await record();
  if (!taken) co_await taking.take_back();
  co_return taken;
}

Task<Result<SnapshotRecord>> checkpoint_stopped(std::shared_ptr<Machine> machine, CheckpointDesk& desk,
                                                CheckpointSpec spec, bool quiesced, Deadline deadline) {
  SPACE_CO_TRY(const auto turn, co_await desk.turns.enter(deadline));
  Taking taking(machine, desk, std::move(spec), deadline);
  SPACE_CO_CHECK(co_await taking.prepare());
  auto taken = [&]() -> Task<Result<SnapshotRecord>> {
    SPACE_CO_CHECK(co_await taking.capture());
    co_return co_await taking.write(quiesced, 0, false);
  };
  auto outcome = co_await taken();
  if (!outcome) co_await taking.take_back();
  co_return outcome;
}

}  // namespace space
