// What a Sandbox goes on from when its VMM died: its disk, or a snapshot of its lineage (core/recovery.h).
// Its disk is never given up for that: where a checkpoint takes its place, it is a snapshot first.
#include <algorithm>

#include "base/log.h"
#include "core/lineage.h"
#include "sandboxd/faults.h"
#include "sandboxd/sandbox.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis turn_limit = 60s;
constexpr Millis verb_limit = 10s;
// At the same snapshot: the node manager may just have been starting again.
constexpr int attempts_at_a_point = 2;

std::string name_of(const RecoveryPoint& point) {
  switch (point.from) {
    case RecoveredFrom::live_disk:
      return "its disk";
    case RecoveredFrom::disk:
      return fmt::format("disk snapshot {}", point.number);
    case RecoveredFrom::full:
      return fmt::format("checkpoint {}", point.number);
  }
  __builtin_unreachable();
}

}  // namespace

// Asked of it
// ---------------------------------------------------------------------------------------------

void Sandbox::recover(std::string cause, bool has_disk) {
  has_disk_ = has_disk;
  vmm_leftovers_ = true;  // also of a recovery that did not get to its end
  begin(do_recover_found(std::move(cause)));
}

bool Sandbox::disk_kept() const {
  return keeps_disk(record_.state, record_.memory);
}

Result<void> Sandbox::set_recovery(RecoveryPolicy policy) {
  SandboxRecord changed = record_;
  changed.recovery = policy;
  SPACE_CHECK(node_.journal.update(changed));
  record_ = std::move(changed);
  changed_.notify_all();
  return {};
}

Result<void> Sandbox::recover_again() {
  if (being_deleted()) return fail(Code::not_found, "sandbox {} does not exist", record_.id);
  if (recovers(record_.state)) return {};
  if (!disk_kept())
    return fail(Code::conflict, "sandbox {} is {}: there is nothing to recover", record_.id,
                to_string(record_.state));
  if (record_.recovery == RecoveryPolicy::none)
    return fail(Code::conflict, "sandbox {} has the recovery policy none: give it another first", record_.id);
  // Somebody looked at it: how often it died before counts no more.
  if (record_.recovered) record_.recovered->recent.clear();
  failed_points_.clear();
  retry_at_ = {};
  record_.wanted = Wanted::running;
  return change(Change::recovery_begun, record_.reason);
}

// Its way
// ----------------------------------------------------------------------------------------------------

// A new daemon found it without a VMM.
Task<void> Sandbox::do_recover_found(std::string cause) {
  start_outcome_ = Result<void>();
  if (recovers(record_.state)) co_return;
  const bool had_vmm = expects_vmm(record_.state, record_.memory);
  if (had_vmm)
    if (const auto exit = co_await node_.host.noded.vmm_exit(record_.id, Deadline::after(verb_limit)))
      cause = describe(*exit);
  begin_recovery(std::move(cause));
}

// From here on it is on its way back, whatever ends this daemon. One that rests will rest again, unless
// nobody but its node knew of that.
void Sandbox::begin_recovery(std::string cause) {
  if (being_deleted()) return;
  if (!cause.empty()) note(LogLevel::error, "sandbox died", {{"reason", cause}});
  log::warn("sandbox recovers",
            {{"sandbox", record_.id}, {"cause", cause}, {"state", to_string(record_.state)}});
  meter_->cut_streams();
  if (record_.idle || !rests(record_.state)) record_.wanted = Wanted::running;
  record_.idle = false;
  record_.memory = MemoryPlace::none;
  record_.restored_from.reset();
  record_.compared_with = 0;
  vmm_leftovers_ = true;
  failed_points_.clear();
  // A journal that cannot be written does not bring the VMM back; the next start finds out again.
  (void)change(Change::recovery_begun, cause);
  crash_point("recovery-begun");
  node_.events.publish(record_.id, record_.state, std::move(cause));
}

// Tries what there is, in the order of its policy. An error: what it needs is not there at present; it is
// tried again.
Task<Result<void>> Sandbox::do_recover() {
  if (!record_.reason.empty() && !recovery_allowed(record_.recovered, system_clock().wall())) {
    give_up(fmt::format(
        "it died more than {} times in {} minutes, the last time because: {}", recovery_limits::most,
        std::chrono::duration_cast<std::chrono::minutes>(recovery_limits::window).count(), record_.reason));
    co_return Result<void>();
  }
  bool disk_is_safe = true;
  for (const RecoveryPoint& point : points_left()) {
    if (point.from != RecoveredFrom::full) co_return go_to_disk(point);
    if (!disk_is_safe) continue;
    if (auto kept = co_await put_disk_aside(); !kept) {
      disk_is_safe = false;
      tell_recovery(fmt::format("no checkpoint takes the place of its disk, which cannot be kept: {}",
                                kept.error().message),
                    std::nullopt);
      continue;
    }
    crash_point("recovery-kept");
    if (record_.wanted != Wanted::running) co_return go_to_rest(point);
    auto restored = co_await restore_point(point);
    if (restored || being_deleted()) co_return Result<void>();
    if (!failed_points_.contains(point.number)) co_return restored;  // the same again, later
  }
  give_up(fmt::format("nothing is there that it could go on from; it died because: {}", record_.reason));
  co_return Result<void>();
}

// What brought it here without a death, a rollback that was interrupted, is not asked for its policy.
RecoveryPolicy Sandbox::recovery_policy() const {
  return record_.reason.empty() ? RecoveryPolicy::disk : record_.recovery;
}

std::vector<RecoveryPoint> Sandbox::points_left() const {
  std::vector<LineagePoint> newest_first;
  for (const SnapshotRecord& snapshot : lineage(snapshots_, record_.head))
    newest_first.push_back({snapshot.number, snapshot.kind == SnapshotKind::full});
  auto points = recovery_points(recovery_policy(), newest_first, has_disk_ || record_.disk_from_head);
  std::erase_if(points, [this](const RecoveryPoint& p) { return failed_points_.contains(p.number); });
  return points;
}

// Once: afterwards the disk is the head's, and so it stays known over a restart.
Task<Result<void>> Sandbox::put_disk_aside() {
  if (record_.disk_from_head || !has_disk_) co_return Result<void>();
  SPACE_CO_TRY(SnapshotRecord taken,
               co_await take({.kind = SnapshotKind::disk, .cause = SnapshotCause::before_recovery}));
  SandboxRecord next = record_;
  next.disk_from_head = true;
  co_return co_await keep_snapshot(std::move(taken), std::move(next));
}

// It rested, and will go on from there when it is asked to.
Result<void> Sandbox::go_to_rest(RecoveryPoint point) {
  SandboxRecord next = record_;
  next.memory = MemoryPlace::checkpoint;
  next.head = point.number;
  next.disk_from_head = false;
  next.counter += 1;
  return finish_recovery(Change::recovery_rests, point, std::move(next));
}

// A boot needs the token, which is never written down: its control plane has it, and hears of this.
Result<void> Sandbox::go_to_disk(RecoveryPoint point) {
  SandboxRecord next = record_;
  if (point.from == RecoveredFrom::disk) {
    next.head = point.number;
    next.disk_from_head = true;
  }
  if (record_.wanted != Wanted::running) {
    next.counter += 1;
    return finish_recovery(Change::recovery_stops, point, std::move(next));
  }
  SPACE_CHECK(node_.journal.update(next));
  record_ = std::move(next);
  boot_point_ = point;
  awaits_init_ = true;
  changed_.notify_all();
  node_.events.publish(record_.id, record_.state, record_.reason);
  return {};
}

// A checkpoint goes on by itself: its memory knows the token.
Task<Result<void>> Sandbox::restore_point(RecoveryPoint point) {
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(turn_limit)));
  const SnapshotId from{record_.id, point.number};
  Result<void> restored = fail_restore_of(point.number);
  if (restored) restored = co_await restore_vm(from, GuestInit{});
  if (!restored) {
    if (!being_deleted()) failed_at(point, restored.error());
    co_return restored;
  }
  crash_point("recovery-restored");
  SandboxRecord next = record_;
  next.memory = MemoryPlace::vmm;
  next.head = next.compared_with = point.number;
  next.restored_from = from;
  next.disk_from_head = false;
  next.counter += 1;
  next.started_at = system_clock().wall();
  if (auto written = finish_recovery(Change::recovery_done, point, std::move(next)); !written) {
    vmm_leftovers_ = true;
    co_return written;
  }
  co_await after_restore();
  co_return Result<void>();
}

void Sandbox::failed_at(const RecoveryPoint& point, const Error& why) {
  log::warn("restore failed", {{"sandbox", record_.id}, {"number", point.number}, log::Field(why)});
  if (++attempts_ < attempts_at_a_point) return;
  attempts_ = 0;
  failed_points_.insert(point.number);
  std::string text = fmt::format("{} could not be restored: {}", name_of(point), why.message);
  // Never a silent substitute.
  if (const auto left = points_left(); !left.empty()) text += "; next is " + name_of(left.front());
  tell_recovery(std::move(text), point.number);
}

// In its log, its history and an event.
void Sandbox::tell_recovery(std::string text, std::optional<std::uint64_t> number) {
  note(LogLevel::error, text);
  log::warn("recovery", {{"sandbox", record_.id}, {"text", text}});
  HistoryRow row = recovery_row(text);
  row.number = number;
  if (const auto written = node_.journal.commit({.history = {std::move(row)}}); !written)
    log::error("journal write failed", {{"sandbox", record_.id}, log::Field(written.error())});
  node_.events.publish(record_.id, record_.state, std::move(text));
}

void Sandbox::boot_failed(const Error& why) {
  if (++attempts_ >= attempts_at_a_point) return give_up(fmt::format("it did not boot: {}", why.message));
  log::warn("sandbox did not boot", {{"sandbox", record_.id}, log::Field(why)});
  awaits_init_ = true;
  node_.events.publish(record_.id, record_.state, record_.reason);
}

// With the token its disk boots. Not enough memory, or no turn: it waits on.
Task<Result<void>> Sandbox::boot_recovered(GuestInit init) {
  SPACE_CO_CHECK(node_.admit(record_));
  SPACE_CO_TRY(const auto turn, co_await node_.starts.enter(Deadline::after(turn_limit)));
  awaits_init_ = false;
  if (const auto booted = co_await boot_vm(std::move(init)); !booted) {
    if (!being_deleted()) boot_failed(booted.error());
    co_return fail(booted.error().code, "sandbox {} did not boot: {}", record_.id, booted.error().message);
  }
  crash_point("recovery-booted");
  SandboxRecord next = record_;
  next.memory = MemoryPlace::vmm;
  next.disk_from_head = false;
  next.counter += 1;
  next.started_at = system_clock().wall();
  if (auto written = finish_recovery(Change::recovery_done, boot_point_, std::move(next)); !written) {
    vmm_leftovers_ = awaits_init_ = true;
    co_return written;
  }
  machine_->keep();
  meter_->note_resumed();
  if (!std::exchange(metered_, true)) meter_->keep();
  co_return Result<void>();
}

HistoryRow Sandbox::recovery_row(std::string text) const {
  HistoryRow row;
  row.sandbox = record_.id;
  row.at = system_clock().wall();
  row.kind = HistoryKind::recovery;
  row.text = std::move(text);
  return row;
}

// `next` is all of it but what every recovery changes; written with its line of the history.
Result<void> Sandbox::finish_recovery(Change change, RecoveryPoint point, SandboxRecord next) {
  const SnapshotRecord* from = own_snapshot(point.number);
  JournalChange written{.record = &next};
  std::string text;
  if (!record_.reason.empty()) {
    text = fmt::format("recovered from {}; it died because: {}", name_of(point), record_.reason);
    next.recovered =
        next_recovery(record_.recovered, system_clock().wall(), point,
                      from == nullptr ? std::nullopt : std::optional(from->created_at), record_.reason);
    written.history.push_back(recovery_row(text));
    if (from != nullptr) written.history.back().number = point.number;
  }
  next.state = after(record_.state, change).value_or(record_.state);
  next.reason.clear();
  SPACE_CHECK(node_.journal.commit(written));
  record_ = std::move(next);
  failed_points_.clear();
  attempts_ = 0;
  note(LogLevel::warn, "sandbox recovered", {{"from", name_of(point)}});
  log::info("sandbox recovered",
            {{"sandbox", record_.id}, {"from", name_of(point)}, {"state", to_string(record_.state)}});
  changed_.notify_all();
  node_.events.publish(record_.id, record_.state, std::move(text));
  return {};
}

// Its disk and its snapshots stay for whoever asks it to be recovered again.
void Sandbox::give_up(std::string reason) {
  if (record_.recovery == RecoveryPolicy::none) {
    record_.memory = MemoryPlace::vmm;
    leftovers_ = true;
  }
  awaits_init_ = false;
  attempts_ = 0;
  note(LogLevel::error, "sandbox not recovered", {{"reason", reason}});
  log::warn("sandbox not recovered", {{"sandbox", record_.id}, {"reason", reason}});
  (void)change(Change::recovery_failed, reason);
  node_.events.publish(record_.id, record_.state, std::move(reason));
}

}  // namespace space
