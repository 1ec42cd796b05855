// Sandbox: the actor of one sandbox. Its life is one coroutine, so what it does is strictly serial; others
// only tell it what they want and wait. Deletion wins over everything, a start under way included.
//
// sandbox.cc: beginning, death, deletion. sandbox_rest.cc: pause, resume, stop. sandbox_snapshots.cc: what it
// keeps of itself. sandbox_timers.cc: what it does by itself. sandbox_schedule.cc: what it keeps of itself by
// itself, and for how long. sandbox_recovery.cc: what it goes on from when its VMM died.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/lineage.h"
#include "core/reconcile.h"
#include "sandboxd/checkpoint.h"
#include "sandboxd/console_text.h"
#include "sandboxd/events.h"
#include "sandboxd/journal.h"
#include "sandboxd/machine.h"
#include "sandboxd/sandbox_logs.h"
#include "sandboxd/sandbox_meter.h"

namespace space {

class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  // All outlive every sandbox.
  struct Node {
    Machine::Host host;
    Journal& journal;
    EventLog& events;
    SandboxLogs& logs;
    SandboxMeter::Pace pace;
    CheckpointDesk& desk;
    Turnstile& starts;  // of VMMs, so that many at once do not slow down each other and those that run
    std::int64_t hot_keep_s = 0;  // where a sandbox has no policy of its own
    std::function<Result<void>(const SandboxRecord& record)> admit;              // may it have a VMM again?
    std::function<vmm::SnapshotManifest(const SandboxRecord& record)> describe;  // for its checkpoints
    std::function<bool(const SnapshotId& snapshot)> is_needed;                   // by others than its sandbox
    std::function<void(SnapshotRecord snapshot)> leave_behind;  // it stays when its sandbox is gone
    std::function<void(const std::string& id)> forget;          // nothing of it is left
    // Other sandboxes that need one of its snapshots, by id.
    std::function<std::vector<std::string>(const SnapshotId& snapshot)> used_by;
  };

  // `record` is in the journal already.
  static std::shared_ptr<Sandbox> make(Node node, SandboxRecord record);

  // Its life begins with exactly one of these.
  void start(GuestInit init, std::optional<StartSource> from);
  // `machine` runs and stands still for it: a parked one. Not in the journal before it is running.
  void bind(std::shared_ptr<Machine> machine, GuestInit init);
  void adopt();
  void mark_failed(std::string cause);
  void recover(std::string cause, bool has_disk);  // its VMM is no more
  void remove_leftovers();
  void finish_deletion();
  void release_vmm();  // what is left of its VMM
  void rest();         // nothing to do

  const SandboxRecord& record() const { return record_; }
  bool being_deleted() const { return is_deletion(record_.wanted); }
  // The record's reason, or that the guest does not answer.
  std::string reason() const;
  pid_t pid() const { return machine_->pid(); }
  // Which of its VMMs it has: as long as this is held, no later one equals it.
  std::shared_ptr<const void> vmm() const { return machine_; }

  // Waits for the end of the start. An error: it failed, or has ended since.
  Task<Result<void>> started();
  // Each waits for what is under way, joins its like, and answers at once where it is so already. conflict:
  // the state does not allow it, or still in transition at the deadline.
  Task<Result<void>> pause(Deadline deadline);
  Task<Result<void>> resume(GuestInit init, bool boot, Deadline deadline);
  Task<Result<void>> stop(Deadline deadline);
  // Of a cold one the head, which is what it would be; of one without memory the disk, where others are to
  // begin from it. For those, unavailable: its guest did not stand still for it.
  Task<Result<SnapshotRecord>> snapshot(SnapshotWish wish, Deadline deadline);
  // not_found; conflict: somebody needs it, or it is published.
  Task<Result<void>> remove_snapshot(std::uint64_t number, Deadline deadline);
  // At once.
  Result<SnapshotRecord> edit_snapshot(std::uint64_t number, SnapshotEdit edit);
  Result<std::vector<HistoryRow>> history() const { return node_.journal.history(record_.id); }
  // Its VMM reads from it or is compared with it, or its memory or disk is to come from it.
  bool needs_itself(std::uint64_t number) const;
  // Goes back to a snapshot of its own, or, without a number, to what its last rollback left behind. Returns
  // the number of what this one left. not_found, conflict: as nothing changed. Later errors: it did not go
  // on from there, and is what it was again.
  Task<Result<std::uint64_t>> rollback(std::optional<std::uint64_t> number, GuestInit init,
                                       Deadline deadline);
  // For the node's planned end: its memory goes to the pool; the next start of the node resumes it.
  Task<Result<void>> keep_for_restart(Deadline deadline);
  Result<void> set_policy(PausePolicy policy);
  Result<void> set_schedule(std::optional<SnapshotSchedule> schedule);
  Result<void> set_recovery(RecoveryPolicy policy);
  // What it may reach: JSON that is known to be a policy. Returns how many flows were cut, once none is left
  // that the policy forbids. After an error the old policy is in force and on record.
  Task<Result<std::int64_t>> set_egress(std::string policy, Deadline deadline);
  // Puts its network slot right; a VM whose slot cannot be is ended, and recovered by its policy.
  Task<void> check_slot();
  NetworkState network() const { return machine_->network(); }
  // Begins with what it was given up at. conflict: it did not fail, or nothing of it was kept.
  Result<void> recover_again();
  // Recovering: its disk boots with the next resume.
  bool awaits_init() const { return awaits_init_; }
  bool disk_kept() const;  // failed, and could be recovered again
  // A client called: an idle pause ends.
  void touch();
  // Oldest first.
  const std::vector<SnapshotRecord>& snapshots() const { return snapshots_; }
  // From an earlier daemon; before its life begins.
  void take_over(std::vector<SnapshotRecord> snapshots) {
    snapshots_ = std::move(snapshots);
    maybe_unfinished_ = true;
  }
  std::string_view memory_word() const;  // "live", "hot", "cold", "none"

  // Deletes it; returns once nothing is left. Past the deadline it goes on by itself.
  Task<Result<void>> remove(Deadline deadline);
  // The way into the guest; waits while one is being made. conflict: still in transition at the deadline;
  // unavailable: not running, or its guest does not answer.
  Task<Result<std::shared_ptr<H2Session>>> session(Deadline deadline);
  SandboxMeter& meter() const { return *meter_; }
  // Takes what the guest wrote to its console into the log; at most once a second.
  Task<void> read_console();

 private:
  Sandbox(Node node, SandboxRecord record);
  void begin(Task<void> beginning);
  Task<void> live(Task<void> beginning);
  Task<void> do_start(GuestInit init, std::optional<StartSource> from);
  Task<void> do_bind(GuestInit init);
  void tell_start(Result<void> outcome, Monotonic begun);
  Task<void> do_adopt();
  Task<void> do_mark_failed(std::string cause);
  Task<void> bury();
  Task<void> clear_leftovers();
  Task<void> do_delete();
  Task<Result<void>> remove_snapshots();
  Result<void> forget_record();
  Task<void> wait_before_retry();
  void make_machine();
  ChannelLink::Hooks channel_hooks();

  // One thing asked of it, by whoever came first; the others wait.
  struct Order {
    enum class Kind : unsigned char {
      pause,
      resume,
      boot,
      stop,
      snapshot,
      keep,
      remove_snapshot,
      rollback
    } kind;
    GuestInit init;
    bool idle = false;
    SnapshotWish wish;
    std::optional<std::uint64_t> number;  // of the snapshot it is about
    std::optional<Result<void>> outcome;
    SnapshotRecord snapshot;  // that was taken
  };
  using OrderPtr = std::shared_ptr<Order>;
  Task<Result<void>> give(OrderPtr order, Deadline deadline);
  enum class Until : unsigned char { settled, settled_or_awaits_init };
  // True once nothing is under way.
  Task<Result<void>> settled(Deadline deadline, Until until = Until::settled);
  Task<void> carry_out();
  Task<Result<void>> do_order(OrderPtr order);
  Task<Result<void>> do_pause(bool idle);
  Task<Result<void>> do_resume(GuestInit init);
  Task<Result<void>> resume_hot();
  Task<Result<void>> resume_cold(GuestInit init);
  Task<Result<void>> restore_vm(SnapshotId from, GuestInit init);
  Task<void> after_restore();
  Task<Result<void>> do_stop();
  void stop_is_done();
  Task<Result<void>> do_boot(GuestInit init);
  Task<Result<void>> boot_vm(GuestInit init);
  Task<Result<void>> go_cold();
  Task<void> drop_vmm();
  Task<void> settle_adopted();
  Task<void> thaw_adopted();
  // Snapshots.
  Task<Result<void>> do_snapshot(OrderPtr order);
  Result<SnapshotRecord> take_head(const SnapshotWish& wish);
  CheckpointSpec next_checkpoint(const SnapshotWish& wish) const;
  Task<Result<void>> keep_snapshot(SnapshotRecord taken, SandboxRecord next);
  SnapshotRecord* own_snapshot(std::uint64_t number);  // nullptr: none
  Task<Result<SnapshotRecord>> take(SnapshotWish wish);
  Result<void> check_fit_for_others(const SnapshotRecord& snapshot) const;
  bool is_at_head() const;
  Task<Result<void>> do_remove_snapshot(std::uint64_t number);
  Result<void> check_removable(const SnapshotRecord& snapshot) const;
  // Rollback.
  Task<Result<void>> do_rollback(OrderPtr order);
  Task<Result<void>> check_target(RollbackTarget target);
  Task<Result<SnapshotRecord>> leave_state();
  Result<void> go_to(const RollbackTarget& target, SandboxRecord next, SnapshotRecord left, std::string text);
  Task<Result<void>> go_on_from_head(GuestInit init);
  Task<void> take_back_rollback(SandboxRecord before, SnapshotRecord left);
  Task<void> run_on();
  Task<Result<void>> drop_snapshot(std::uint64_t number, std::vector<HistoryRow> history);
  Task<void> remove_doomed();
  Task<void> drop_old_snapshots();
  Task<void> drop_unfinished();
  // Recovery.
  Task<void> do_recover_found(std::string cause);
  void begin_recovery(std::string cause);
  Task<Result<void>> do_recover();
  RecoveryPolicy recovery_policy() const;
  std::vector<RecoveryPoint> points_left() const;
  Task<Result<void>> put_disk_aside();
  Result<void> go_to_rest(RecoveryPoint point);
  Result<void> go_to_disk(RecoveryPoint point);
  Task<Result<void>> restore_point(RecoveryPoint point);
  void failed_at(const RecoveryPoint& point, const Error& why);
  void tell_recovery(std::string text, std::optional<std::uint64_t> number);
  Task<Result<void>> boot_recovered(GuestInit init);
  void boot_failed(const Error& why);
  HistoryRow recovery_row(std::string text) const;
  Result<void> finish_recovery(Change change, RecoveryPoint point, SandboxRecord next);
  void give_up(std::string reason);
  // Schedule and retention.
  struct ScheduledKind {  // as it was for the last of its kind
    std::optional<Wall> looked_at;
    std::optional<Monotonic> at;
    std::optional<std::uint64_t> cpu_used_us;
  };
  std::optional<Wall> schedule_due(SnapshotKind kind) const;
  std::optional<SnapshotKind> scheduled_kind_due() const;
  std::optional<Monotonic> next_scheduled() const;
  Task<bool> changed_since(ScheduledKind base, ScheduledKind& now);
  Task<Result<void>> take_scheduled(SnapshotKind kind);
  bool retention_applies() const;
  bool retention_due() const;
  std::set<std::uint64_t> needed_snapshots() const;
  Task<Result<void>> apply_retention();
  Task<Result<void>> apply_quota(std::int64_t quota_bytes);
  // What each snapshot holds of the pool by itself, in bytes.
  Task<Result<std::map<std::uint64_t, std::int64_t>>> measure_exclusive();
  StartSpec start_spec() const { return {record_.template_digest, record_.shape, record_.accelerator}; }
  // What it does by itself next, and when; nullopt: nothing.
  std::optional<Monotonic> next_due() const;
  Task<void> do_due();
  Task<Result<void>> pause_if_idle();
  bool idle_due() const;
  bool cold_due() const;
  bool wake_due() const;

  Egress egress() const;
  bool has_slot() const;

  enum class Write : unsigned char { yes, later };  // later: a crash before the next write undoes it
  Result<void> change(Change change, std::string reason, Write write = Write::yes);
  // Of what it was doing; a deletion that came meanwhile stays what is wanted.
  void want(Wanted wanted) {
    if (!being_deleted()) record_.wanted = wanted;
  }
  void on_machine_changed();
  SandboxMeter::Hooks meter_hooks();
  void note(LogLevel level, std::string message,
            std::vector<std::pair<std::string, std::string>> fields = {});

  Node node_;
  SandboxRecord record_;
  std::shared_ptr<Machine> machine_;
  std::shared_ptr<SandboxMeter> meter_;
  std::shared_ptr<SandboxLog> log_;
  ConsoleText console_;
  bool reading_console_ = false;
  std::optional<Monotonic> console_read_at_;
  std::optional<Result<void>> start_outcome_;
  bool leftovers_ = false;
  bool vmm_leftovers_ = false;
  bool maybe_unfinished_ = false;  // a snapshot that nobody finished may be there
  bool changing_egress_ = false;
  bool closing_ = false;  // kept for the next start of the node: nothing wakes it before
  bool metered_ = false;
  bool quiesced_ = false;  // how it was paused
  std::vector<SnapshotRecord> snapshots_;
  std::set<std::uint64_t> doomed_;  // snapshots that only the pool still has
  OrderPtr order_;
  // Of a recovery.
  bool has_disk_ = true;
  bool awaits_init_ = false;
  RecoveryPoint boot_point_;               // what it boots from
  std::set<std::uint64_t> failed_points_;  // snapshots that it did not go on from
  int attempts_ = 0;                       // at the one it tries
  // By kind.
  std::array<ScheduledKind, snapshot_names::kinds.size()> scheduled_;
  Wall schedule_since_ = system_clock().wall();
  Monotonic schedule_busy_until_{};
  Monotonic retention_at_{};
  Monotonic paused_at_{};
  std::optional<Monotonic> idle_look_at_;
  Monotonic retry_at_{};  // what failed by itself is not tried again before
  bool was_responsive_ = true;
  bool was_out_of_disk_ = false;
  Event changed_;
};

}  // namespace space
