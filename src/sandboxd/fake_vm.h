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
#include "vmm/fake_qemu.h"

namespace space {

class FakeVm : public std::enable_shared_from_this<FakeVm> {
 public:
  struct Behaviour {
    bool boots = true;             // answers SYNC
    std::string refuses;           // name of a control call answered 400
    std::string dies_during;       // name of a control call it never answers
    bool answers_garbage = false;  // instead of a SYNC answer
  };

  // Takes the listening sockets, serves until it dies.
  static std::shared_ptr<FakeVm> launch(const Executor& executor, Fd qmp, Fd channel, Behaviour behaviour);

  void die(int signal);
  bool running() const { return running_; }
  int signal() const { return signal_; }
  Fd pidfd() const;  // readable once it is dead

  // What the guest knows; lives as long as the VM, whoever is attached.
  JsonObject identity, init;
  std::string stats = R"({"cpu_count":1,"mem_total":512})";  // its answer to that call
  std::vector<std::string> calls;                            // control calls, in order
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

  Executor executor_;
  Behaviour behaviour_;
  vmm::FakeQemu qemu_;
  Fd death_;
  std::shared_ptr<H2Session> session_;
  Event died_;
  bool running_ = true;
  int signal_ = 0;
};

}  // namespace space
