// FakeNoded: the verbs of api/noded.h over a real SEQPACKET socket, with everything they hold in memory. For
// tests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/noded.h"
#include "sandboxd/fake_snapshots.h"
#include "sandboxd/fake_vm.h"

namespace space {

class FakeNoded {
 public:
  struct Held {
    bool disk = false;
    bool slot = false;
    bool slot_damaged = false;   // something of it is missing
    bool slot_replaced = false;  // its VM is connected to another
    std::string content;         // of its disk
    // The snapshot that its disk came from, if any.
    std::optional<std::pair<std::string, std::uint64_t>> origin;
    Fd launch_memory;                         // of its VM
    std::vector<std::string> snapshot_disks;  // content of its VM's second and third, if it has them
    std::shared_ptr<FakeVm> vm;               // also a dead one, until it is forgotten
    bool empty() const { return !disk && !slot && !vm; }
  };

  FakeNoded(Executor executor, std::string socket_path);
  ~FakeNoded();

  std::map<std::string, Held> sandboxes;
  std::set<std::string> templates;
  std::string manifest = R"({"format":1,"name":"base"})";  // of each template; with a shape it gets a pool
  FakeSnapshots snapshots;
  bool sees_deaths = true;         // false: exits are recorded, their causes not
  std::string isolation;           // answer of vmm_isolation
  FakeVm::Behaviour behaviour;     // of the VMs launched next
  std::vector<noded::Verb> verbs;  // seen, in order

  // An error refuses the verb.
  std::function<std::optional<Error>(noded::Verb)> refuse = [](noded::Verb) { return std::nullopt; };
  // Called before the effect of the nth verb (from 1) and again before its answer is sent.
  std::function<void(std::size_t nth, bool done)> on_verb = [](std::size_t, bool) {};

  bool holds_nothing() const;
  std::shared_ptr<FakeVm> vm(const std::string& id) const;  // a running one, or nullptr
  void restart();  // drops connections and what is half made, as a new process would

 private:
  struct Answer {
    std::uint64_t values[noded::values_count] = {};
    std::vector<Fd> fds;
  };
  Task<void> listen(std::shared_ptr<int> generation);
  Task<void> serve(Fd socket, std::shared_ptr<int> generation);
  Result<Answer> carry_out(const noded::Request& request, std::vector<Fd> fds);
  Result<Answer> carry_out_on(Held& held, const noded::Request& request);
  Result<Answer> begin_snapshot(const std::string& id, const noded::Request& request);
  Result<Answer> of_snapshot(const std::string& id, const noded::Request& request);
  Result<Answer> restore_disk(Held& held, const noded::Request& request);
  Result<Answer> launch(Held& held, const noded::Request& request, std::vector<Fd> fds);
  Result<std::vector<std::string>> snapshot_disks(const noded::Request& request) const;
  Result<Fd> launch_memory(const Held& held, const noded::Request& request) const;
  Result<Answer> list() const;
  void start();

  Executor executor_;
  std::string socket_path_;
  Fd listener_;
  std::shared_ptr<int> generation_;  // counts restarts; -1: gone
};

}  // namespace space
