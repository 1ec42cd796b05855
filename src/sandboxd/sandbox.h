// Sandbox: the actor of one sandbox. Its life is one coroutine, so what it does is strictly serial; others
// only tell it what they want and wait. Deletion wins over everything, a start under way included.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/reconcile.h"
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
    std::function<void(const std::string& id)> forget;  // nothing of it is left
  };

  // `record` is in the journal already.
  static std::shared_ptr<Sandbox> make(Node node, SandboxRecord record);

  // Its life begins with exactly one of these.
  void start(GuestInit init, MachineAccelerator accelerator);
  void adopt();
  void mark_failed(std::string cause);
  void remove_leftovers();
  void finish_deletion();
  void rest();  // nothing to do

  const SandboxRecord& record() const { return record_; }
  bool being_deleted() const { return is_deletion(record_.wanted); }
  // The record's reason, or that the guest does not answer.
  std::string reason() const;
  pid_t pid() const { return machine_->pid(); }

  // Waits for the end of the start. An error: it failed, or has ended since.
  Task<Result<void>> started();
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
  Task<void> do_start(GuestInit init, MachineAccelerator accelerator);
  Task<void> do_adopt();
  Task<void> do_mark_failed(std::string cause);
  Task<void> bury();
  Task<void> clear_leftovers();
  Task<void> do_delete();
  Task<void> pause();

  Result<void> change(Change change, std::string reason);
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
  bool was_responsive_ = true;
  bool was_out_of_disk_ = false;
  Event changed_;
};

}  // namespace space
