// FakeVm: what space-sandboxd sees of a running VM: QMP, a guest daemon on the channel, and its death. For
// tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "net/h2_session.h"
#include "sandboxd/fake_memory.h"
#include "vmm/fake_qemu.h"

namespace space {

class FakeVm : public std::enable_shared_from_this<FakeVm> {
 public:
  struct Behaviour {
    bool boots = true;                                         // answers SYNC
    std::string refuses;                                       // name of a control call answered 400
    std::string dies_during;                                   // name of a control call it never answers
    bool answers_garbage = false;                              // instead of a SYNC answer
    bool never_freezes = false;                                // its quiesce ends with frozen = false
    bool disk_never_freezes = false;                           // its freeze_disk does
    bool disk_thaws_early = false;                             // before thaw_disk is asked for
    std::string diff = R"({"changes":[],"truncated":false})";  // its answer to that call
  };

  // Takes the listening sockets, serves until it dies. `incoming`: does so once it was given its devices and
  // told to go on.
  static std::shared_ptr<FakeVm> launch(const Executor& executor, Fd qmp, Fd channel, Behaviour behaviour,
                                        std::unique_ptr<FakeMemory> memory = nullptr, bool incoming = false);

  void die(int signal);
  bool running() const { return running_; }
  int signal() const { return signal_; }
  Fd pidfd() const;  // readable once it is dead

  vmm::FakeQemu& qemu() { return qemu_; }
  FakeMemory& memory() { return *memory_; }
  // Of the guest: no vCPU runs while it is stopped.
  bool stands_still() const { return qemu_.state != "running"; }

  // What the guest knows. It lies in the first page of its memory too, so that a snapshot has it and who goes
  // on from one begins with it.
  JsonObject identity, init;
  bool frozen = false;       // its user cgroup
  bool disk_frozen = false;  // not remembered: a quiesce thaws it
  std::int64_t generation = 0;
  std::vector<JsonObject> wakes;                             // bodies of that call, in order, of this VM only
  std::string stats = R"({"cpu_count":1,"mem_total":512})";  // its answer to that call
  std::string activity = R"({"cpu_used_us":0})";             // the same
  std::vector<std::string> calls;                            // control calls, in order
  std::string program;                                       // that its daemon was replaced by
  std::uint64_t last_epoch = 0;
  int attaches = 0;
  bool silent = false;  // reads nothing and says nothing until it is false again

 private:
  FakeVm(const Executor& executor, Behaviour behaviour);
  Task<void> serve_qmp(Fd listener);
  Task<void> serve_channel(Fd listener);
  Task<void> serve_guest(StreamPtr transport);
  Task<Fd> accept(int listener);
  Task<CallResponse> control(CallRequest request);
  CallResponse obey(const std::string& name, const JsonObject& body);
  CallResponse take_program(const JsonObject& body);
  Task<void> hang_up();
  void take_identity(const JsonObject& body);
  void remember();
  void recall();

  Executor executor_;
  Behaviour behaviour_;
  std::unique_ptr<FakeMemory> memory_;
  vmm::FakeQemu qemu_;
  Fd death_;
  std::shared_ptr<H2Session> session_;
  Event died_;
  bool running_ = true;
  int signal_ = 0;
};

}  // namespace space
