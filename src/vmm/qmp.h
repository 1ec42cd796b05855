// Qmp: a client of QEMU's machine protocol over one stream. Commands go out one at a time; late answers to
// commands nobody waits for any more are dropped. Whatever QEMU sends is hostile: every size is bounded, and
// one malformed message ends the session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "net/stream.h"
#include "vmm/qmp_message.h"

namespace space::vmm {

// What a device state may be at most; a machine of ours has 0.2 MB.
inline constexpr std::size_t device_state_limit_bytes = std::size_t{16} << 20;

struct VmStatus {
  bool running = false;
  std::string state;  // QEMU's word: "running", "paused", "inmigrate", "shutdown", "guest-panicked", …
};

class Qmp {
 public:
  using EventHandler = std::function<void(QmpEvent)>;  // called on the loop, until the session is closed

  // Reads the greeting and negotiates; afterwards events arrive whether or not a command is under way.
  static Task<Result<std::unique_ptr<Qmp>>> open(StreamPtr stream, EventHandler on_event, Deadline deadline);
  ~Qmp();  // closes
  Qmp(const Qmp&) = delete;
  Qmp& operator=(const Qmp&) = delete;

  // Answers QEMU's "return" value. An error of QEMU's own is its text under not_found, conflict or internal,
  // and the session goes on. unavailable: the session is closed, also when that happened because of this
  // answer. deadline: no answer in time; QEMU may still carry the command out.
  Task<Result<Json>> execute(std::string command, JsonObject arguments, Deadline deadline);

  Task<Result<VmStatus>> query_status(Deadline deadline);
  Task<Result<void>> stop(Deadline deadline);  // returns once the vCPUs stand still and the disk is flushed
  Task<Result<void>> cont(Deadline deadline);
  Task<Result<void>> system_powerdown(Deadline deadline);  // presses the ACPI power button
  Task<Result<void>> quit(Deadline deadline);              // ends QEMU now, whatever the guest does
  // What the guest wrote to its console since the last call, at most the newest 64 KiB. UTF-8, hostile.
  Task<Result<std::string>> console_text(Deadline deadline);

  // Of a VM that stands still: all of it but its memory and its disk. QEMU writes it into a file of memory
  // that is made here. exhausted: longer than device_state_limit_bytes. Whatever fails, the VM can go on.
  Task<Result<std::string>> save_device_state(Deadline deadline);
  // Of a VM that was started with MachineSpec::incoming and has not been given one: loads what `state` holds
  // from its beginning (a file open for reading, with an offset of its own, as the loader moves it). The VM
  // then stands still ("paused") until cont. After any failure the VM is of no use: it must be killed, for it
  // would answer a cont as if it went on. invalid_argument: QEMU did not take the state, with its reason.
  Task<Result<void>> load_device_state(Fd state, Deadline deadline);

  void close(std::string reason) noexcept;
  bool closed() const;
  const std::string& server_version() const;  // "10.0.2"

 private:
  class Session;
  class PassedFd;
  explicit Qmp(std::shared_ptr<Session> session);
  Task<Result<void>> command(std::string name, Deadline deadline);
  Task<Result<bool>> is_loaded(Deadline deadline);

  std::shared_ptr<Session> session_;
};

}  // namespace space::vmm
