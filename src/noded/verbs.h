// What each verb does: the admitted call, its descriptors, and the one answer.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/noded.h"
#include "base/fd.h"
#include "noded/door.h"
#include "priv/cgroup.h"
#include "priv/layout.h"
#include "priv/pool.h"
#include "priv/uid_range.h"
#include "priv/vmm.h"

namespace space::noded {

struct Answer {
  std::array<std::uint64_t, values_count> values{};
  std::vector<Fd> descriptors;
  Fd closed_late;        // after the next verb on the same id may run: closing it takes time
  bool goes_on = false;  // likewise: the worker has more to do, which is nothing of that id's
};

// What an operator chose for this node.
struct Settings {
  std::string vmm_program;            // absolute path of QEMU
  std::uint64_t pool_mib_max = 0;     // of a pool that is made anew
  std::vector<std::string> may_miss;  // layers of the jail without which VMs run where the kernel has none
};
using Answerer = std::function<void(Result<Answer>)>;

class Verbs {
 public:
  // Takes over what an earlier process left: removes what is half made, learns which uids are in use.
  static Result<Verbs> open(priv::Layout layout, Settings settings);

  // In the process itself, before the work: chooses the uid of a disk that may be new, and the spare slot
  // that becomes one.
  Result<void> prepare(const Call& call);
  // Carries out the verb and calls `answer` exactly once. Verbs that are not at_once run in a worker, which
  // ends when this returns; import, launch, slot_create and snapshot_finish go on after their answer, launch
  // as the VMM's supervisor.
  void run(const Call& call, std::vector<Fd> descriptors, const Answerer& answer) const;
  // In the process itself, after the work: the uid is held if and only if a disk has it, and a spare slot by
  // nobody.
  void settle(const Call& call);

 private:
  Verbs(priv::Layout layout, priv::Pool pool, priv::Cgroups cgroups, std::string bundle,
        std::string sound_rules, Settings settings);
  void learn_uid(const std::string& id);

  void import_template(const Call& call, const Answerer& answer) const;
  void launch(const Call& call, std::vector<Fd> descriptors, const Answerer& answer) const;
  Result<priv::VmmLaunch> launch_of(const Call& call, std::vector<Fd> descriptors) const;
  void finish_snapshot(const Call& call, const Answerer& answer) const;
  void create_slot(const Call& call, const Answerer& answer) const;
  Result<Answer> carry_out(const Call& call) const;
  Result<Answer> pool_info() const;
  Result<Answer> list() const;
  Result<Answer> create_disk(const Call& call) const;
  Result<Answer> restore_disk(const Call& call) const;
  Result<Answer> begin_snapshot(const Call& call) const;
  Result<Answer> open_slot(const priv::SandboxPermit& sandbox) const;
  Result<Answer> check_slot(const Call& call) const;
  Result<Answer> open_vmm(const priv::SandboxPermit& sandbox) const;
  Result<Answer> open_memory(const priv::SandboxPermit& sandbox) const;
  Result<Answer> read_exit(const priv::SandboxPermit& sandbox) const;
  Result<Answer> isolation(const priv::SandboxPermit& sandbox) const;
  Result<void> require_no_vmm(const priv::SandboxPermit& sandbox) const;

  priv::Layout layout_;
  priv::Pool pool_;
  priv::Cgroups cgroups_;
  std::string bundle_;       // name of the one for VMs that boot
  std::string sound_rules_;  // as priv::prepare_slots told
  Settings settings_;
  priv::UidRange uids_;
  std::map<std::string, uid_t> uid_of_;          // sandboxes with a disk, or one in the making
  std::map<std::string, std::string> spare_of_;  // slots in the making
};

}  // namespace space::noded
