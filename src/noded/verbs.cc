#include "noded/verbs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/ids.h"
#include "base/log.h"
#include "noded/inventory.h"
#include "priv/bundle.h"
#include "priv/disk.h"
#include "priv/folder.h"
#include "priv/isolation.h"
#include "priv/process.h"
#include "priv/slot.h"
#include "priv/snapshot.h"
#include "priv/template.h"
#include "priv/vmm.h"

namespace space::noded {
namespace {

constexpr useconds_t spare_delay_us = 50'000;  // the launch that follows a new slot goes first

uid_t random_uid() {
  std::uint32_t number = 0;
  fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return vm_uid_first + number % (vm_uid_last - vm_uid_first + 1);
}

// The done pipe speaks errno.
unsigned char errno_of(Code code) {
  switch (code) {
    case Code::not_found:
      return ENOENT;
    case Code::exhausted:
      return ENOSPC;
    case Code::permission_denied:
      return EACCES;
    case Code::conflict:
      return EBUSY;
    default:
      return EIO;
  }
}

Result<Answer> done(Result<void> result) {
  if (!result) return std::unexpected(std::move(result).error());
  return Answer{};
}

Answer answer_of(Fd fd) {
  Answer answer;
  answer.descriptors.push_back(std::move(fd));
  return answer;
}

// Memory that the client can read and nobody can change any more.
Result<Answer> sealed(std::span<const std::byte> bytes) {
  Fd memory(::memfd_create("answer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail_errno(errno, "memfd_create");
  SPACE_CHECK(write_all(memory.get(), bytes));
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "seal the answer");
  return answer_of(std::move(memory));
}

// Those that are there.
Answer answer_of(std::initializer_list<Fd*> fds) {
  Answer answer;
  for (Fd* fd : fds)
    if (*fd) answer.descriptors.push_back(std::move(*fd));
  return answer;
}

Answer answer_of(priv::SnapshotFiles files) {
  const bool has_memory = files.memory.get() >= 0;
  Answer answer = answer_of({&files.memory, &files.state, &files.manifest, &files.disk});
  answer.values[0] = has_memory ? 1 : 0;
  return answer;
}

Answer answer_of(priv::VmmHandle vmm) {
  Answer answer;
  answer.values[0] = static_cast<std::uint64_t>(vmm.process.pid);
  answer.descriptors.push_back(std::move(vmm.pidfd));
  return answer;
}

// QEMU calls accept on it: anything but a listening unix stream socket would be somebody else's.
Result<void> require_listening(const Fd& fd) {
  int domain = 0, type = 0, listening = 0;
  socklen_t size = sizeof(int);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || domain != AF_UNIX ||
      type != SOCK_STREAM || listening == 0)
    return fail(Code::invalid_argument, "the descriptors must be listening unix stream sockets");
  return {};
}

// Those that a VM runs from or a snapshot needs stay. Where one of them cannot be read, all do.
Result<void> remove_unused_bundles(const priv::Layout& layout, const priv::Pool& pool,
                                   const std::string& current) {
  std::set<std::string> used{current};
  SPACE_TRY(const auto vmms, priv::names_in(layout.vmms()));
  for (const std::string& id : vmms) {
    const auto facts = priv::read_vmm_launch(layout, id);
    if (!facts) return {};
    used.insert(facts->bundle);
  }
  const auto of_snapshots = priv::bundles_of_snapshots(pool);
  if (!of_snapshots) return {};
  used.insert(of_snapshots->begin(), of_snapshots->end());
  return priv::remove_other_bundles(layout, used);
}

}  // namespace

Verbs::Verbs(priv::Layout layout, priv::Pool pool, priv::Cgroups cgroups, std::string bundle,
             std::string sound_rules, Settings settings)
    : layout_(std::move(layout)),
      pool_(std::move(pool)),
      cgroups_(std::move(cgroups)),
      bundle_(std::move(bundle)),
      sound_rules_(std::move(sound_rules)),
      settings_(std::move(settings)),
      uids_(vm_uid_first, vm_uid_last, random_uid()) {}

Result<Verbs> Verbs::open(priv::Layout layout, Settings settings) {
  SPACE_TRY(auto cgroups, priv::Cgroups::find(layout.run));
  SPACE_TRY(auto pool, priv::Pool::open(layout, settings.pool_mib_max));
  SPACE_TRY(std::string sound_rules, priv::prepare_slots(layout));
  SPACE_CHECK(priv::remove_half_made_vmms(layout, cgroups));
  SPACE_TRY(std::string bundle, priv::prepare_bundle(layout, settings.vmm_program));
  SPACE_CHECK(remove_unused_bundles(layout, pool, bundle));
  Verbs verbs(std::move(layout), std::move(pool), std::move(cgroups), std::move(bundle),
              std::move(sound_rules), std::move(settings));
  SPACE_TRY(const auto sandboxes, priv::names_in(verbs.pool_.sandboxes()));
  for (const std::string& id : sandboxes) verbs.learn_uid(id);
  return verbs;
}

Result<void> Verbs::prepare(const Call& call) {
  if (call.verb == Verb::slot_create) {
    std::vector<std::string> spares = priv::spare_slots(layout_);
    for (const auto& [id, given] : spare_of_) std::erase(spares, given);
    if (!spares.empty()) spare_of_[call.sandbox->id()] = spares.front();
  }
  const bool makes_disk = call.verb == Verb::disk_create || call.verb == Verb::disk_restore;
  if (!makes_disk || uid_of_.contains(call.sandbox->id())) return {};
  const auto uid = uids_.take(priv::uid_has_process);
  if (!uid) return fail(Code::exhausted, "every uid for sandboxes is in use");
  uid_of_[call.sandbox->id()] = *uid;
  return {};
}

void Verbs::settle(const Call& call) {
  if (call.verb == Verb::slot_create) spare_of_.erase(call.sandbox->id());
  if (call.verb != Verb::disk_create && call.verb != Verb::disk_restore && call.verb != Verb::disk_remove)
    return;
  const std::string& id = call.sandbox->id();
  if (const auto known = uid_of_.find(id); known != uid_of_.end()) {
    uids_.release(known->second);
    uid_of_.erase(known);
  }
  learn_uid(id);
}

void Verbs::learn_uid(const std::string& id) {
  const auto disk = priv::find_disk(pool_, id);
  if (!disk) return;
  uids_.hold(disk->uid);
  uid_of_[id] = disk->uid;
}

void Verbs::run(const Call& call, std::vector<Fd> descriptors, const Answerer& answer) const {
  switch (call.verb) {
    case Verb::template_import:
      return import_template(call, answer);
    case Verb::vmm_launch:
      return launch(call, std::move(descriptors), answer);
    case Verb::snapshot_finish:
      return finish_snapshot(call, answer);
    case Verb::slot_create:
      return create_slot(call, answer);
    default:
      return answer(carry_out(call));
  }
}

Result<Answer> Verbs::carry_out(const Call& call) const {
  switch (call.verb) {
    case Verb::pool_info:
      return pool_info();
    case Verb::list:
      return list();
    case Verb::template_open: {
      SPACE_TRY(Fd manifest, priv::open_manifest(pool_, *call.template_));
      return answer_of(std::move(manifest));
    }
    case Verb::template_remove:
      return done(priv::remove_template(pool_, *call.template_));
    case Verb::disk_create:
      return create_disk(call);
    case Verb::disk_remove:
      SPACE_CHECK(require_no_vmm(*call.sandbox));
      return done(priv::remove_disk(pool_, *call.sandbox));
    case Verb::slot_remove:
      SPACE_CHECK(require_no_vmm(*call.sandbox));
      return done(priv::remove_slot(layout_, *call.sandbox));
    case Verb::slot_open:
      return open_slot(*call.sandbox);
    case Verb::slot_check:
      return check_slot(call);
    case Verb::vmm_open:
      return open_vmm(*call.sandbox);
    case Verb::vmm_kill:
      return done(priv::kill_vmm(cgroups_, *call.sandbox));
    case Verb::vmm_exit:
      return read_exit(*call.sandbox);
    case Verb::vmm_forget:
      return done(priv::forget_vmm(layout_, cgroups_, *call.sandbox));
    case Verb::vmm_open_memory:
      return open_memory(*call.sandbox);
    case Verb::vmm_isolation:
      return isolation(*call.sandbox);
    case Verb::snapshot_begin:
      return begin_snapshot(call);
    case Verb::snapshot_open: {
      SPACE_TRY(auto files, priv::open_snapshot(pool_, *call.sandbox, call.values[0]));
      return answer_of(std::move(files));
    }
    case Verb::snapshot_remove:
      return done(priv::remove_snapshot(pool_, *call.sandbox, call.values[0]));
    case Verb::disk_restore:
      return restore_disk(call);
    case Verb::template_import:
    case Verb::vmm_launch:
    case Verb::snapshot_finish:
    case Verb::slot_create:
      break;  // answered by run
  }
  return fail(Code::internal, "verb without an answer");
}

Result<Answer> Verbs::pool_info() const {
  SPACE_TRY(const auto space, pool_.space());
  return Answer{.values = {space.free_bytes, space.total_bytes}};
}

Result<Answer> Verbs::list() const {
  SPACE_TRY(const auto records, take_inventory(layout_, pool_));
  return sealed(std::as_bytes(std::span(records)));
}

Result<Answer> Verbs::create_disk(const Call& call) const {
  const std::uint64_t mib = call.values[0];
  if (const auto existing = priv::find_disk(pool_, call.sandbox->id())) {
    if (existing->mib != mib) return fail(Code::conflict, "the disk is there with {} MiB", existing->mib);
    return Answer{.values = {existing->uid}};
  }
  const uid_t uid = uid_of_.at(call.sandbox->id());
  SPACE_CHECK(priv::create_disk(pool_, *call.sandbox, *call.template_, mib, uid));
  return Answer{.values = {uid}};
}

Result<Answer> Verbs::restore_disk(const Call& call) const {
  SPACE_CHECK(require_no_vmm(*call.sandbox));
  const uid_t uid = uid_of_.at(call.sandbox->id());
  SPACE_CHECK(priv::restore_disk(pool_, *call.sandbox, *call.source, call.values[0], uid));
  return Answer{.values = {uid}};
}

Result<Answer> Verbs::begin_snapshot(const Call& call) const {
  std::optional<priv::VmmFacts> vmm;
  if (call.values[2] == 0) {
    SPACE_TRY(vmm, priv::vmm_facts(layout_, *call.sandbox));
  }
  SPACE_TRY(auto files, priv::begin_snapshot(pool_, *call.sandbox, call.values[0], call.values[1],
                                             vmm ? &*vmm : nullptr));
  if (vmm) return answer_of({&files.memory, &files.state, &files.manifest});
  Answer answer = answer_of({&files.manifest});
  answer.closed_late = std::move(files.memory);  // the last one who has it gives its pieces back
  return answer;
}

void Verbs::finish_snapshot(const Call& call, const Answerer& answer) const {
  const auto finished = priv::finish_snapshot(pool_, *call.sandbox, call.values[0]);
  answer(done(finished));
  if (!finished || call.values[1] == 0) return;
  if (const auto kept = priv::keep_memory(pool_, *call.sandbox, call.values[0]); !kept)
    log::warn("the next snapshot will clone its memory",
              {{"id", call.sandbox->id()}, log::Field(kept.error())});
}

// Goes on after its answer, as nothing that the sandbox waits for: puts a spare slot in place of the used
// one.
void Verbs::create_slot(const Call& call, const Answerer& answer) const {
  const auto given = spare_of_.find(call.sandbox->id());
  Result<Answer> created = done(priv::create_slot(layout_, *call.sandbox, call.values[0],
                                                  given == spare_of_.end() ? "" : given->second));
  if (created) created->goes_on = true;
  const bool is_done = created.has_value();
  answer(std::move(created));
  if (!is_done) return;
  (void)::setpriority(PRIO_PROCESS, 0, 19);
  ::usleep(spare_delay_us);
  if (const auto made = priv::make_spare_slots(layout_); !made)
    log::warn("no spare network slot", {log::Field(made.error())});
}

Result<Answer> Verbs::open_slot(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(auto sockets, priv::open_sockets_of_slot(layout_, sandbox));
  Answer answer;
  for (Fd& socket : sockets) answer.descriptors.push_back(std::move(socket));
  return answer;
}

Result<Answer> Verbs::check_slot(const Call& call) const {
  const std::string& id = call.sandbox->id();
  std::uint64_t connected_to = 0;
  if (priv::holds_processes(priv::vmm_status(layout_, id).state)) {
    SPACE_TRY(const auto facts, priv::read_vmm_launch(layout_, id));
    connected_to = facts.slot;
  }
  SPACE_TRY(const bool repaired,
            priv::repair_slot(layout_, *call.sandbox, call.values[0], sound_rules_, connected_to));
  if (repaired) log::warn("a network slot was put right", {{"id", id}});
  return Answer{.values = {repaired ? 1U : 0U}};
}

Result<Answer> Verbs::open_vmm(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(auto vmm, priv::open_vmm(layout_, sandbox));
  return answer_of(std::move(vmm));
}

Result<Answer> Verbs::open_memory(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(auto memory, priv::open_vmm_memory(layout_, sandbox));
  return answer_of({&memory.mem, &memory.maps, &memory.pagemap});
}

Result<Answer> Verbs::isolation(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(const auto vmm, priv::open_vmm(layout_, sandbox));
  SPACE_TRY(const auto disk, priv::find_disk(pool_, sandbox.id()));
  const auto worn = priv::read_vmm_jail(layout_, sandbox.id());
  std::vector<IsolationRecord> records;
  for (const priv::LayerReading& reading : priv::read_isolation({.pid = vmm.process.pid,
                                                                 .id = sandbox.id(),
                                                                 .uid = disk.uid,
                                                                 .cgroups = &cgroups_,
                                                                 .worn = worn.value_or(priv::Worn{})})) {
    IsolationRecord record{.state = static_cast<LayerState>(reading.state)};
    reading.layer.copy(record.layer, sizeof record.layer - 1);
    reading.detail.copy(record.detail, sizeof record.detail - 1);
    records.push_back(record);
  }
  if (!priv::is_alive(vmm.process)) return fail(Code::not_found, "the VMM of {} has ended", sandbox.id());
  return sealed(std::as_bytes(std::span(records)));
}

Result<Answer> Verbs::read_exit(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(const auto exit, priv::read_vmm_exit(layout_, sandbox));
  Answer answer;
  answer.values[exit_known] = exit.known ? 1 : 0;
  answer.values[exit_signal] = static_cast<std::uint64_t>(exit.signal);
  answer.values[exit_status] = static_cast<std::uint64_t>(exit.status);
  answer.values[exit_oom] = exit.out_of_memory ? 1 : 0;
  return answer;
}

Result<void> Verbs::require_no_vmm(const priv::SandboxPermit& sandbox) const {
  if (priv::holds_processes(priv::vmm_status(layout_, sandbox.id()).state))
    return fail(Code::conflict, "the VMM of {} runs", sandbox.id());
  return {};
}

void Verbs::import_template(const Call& call, const Answerer& answer) const {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return answer(fail_errno(errno, "make a pipe"));
  Fd read(ends[0]);
  const Fd write(ends[1]);
  answer(answer_of(std::move(read)));
  const auto imported = priv::import_template(layout_, pool_, *call.template_);
  if (!imported)
    log::warn("template not imported",
              {{"template", call.template_->digest()}, log::Field(imported.error())});
  const unsigned char outcome = imported ? 0 : errno_of(imported.error().code);
  (void)!::write(write.get(), &outcome, 1);  // the client may have gone
}

void Verbs::launch(const Call& call, std::vector<Fd> descriptors, const Answerer& answer) const {
  const auto answer_started = [&](Result<priv::VmmHandle> vmm) {
    answer(vmm ? Result<Answer>(answer_of(*std::move(vmm))) : std::unexpected(vmm.error()));
  };
  const priv::SandboxPermit& sandbox = *call.sandbox;
  const auto state = priv::vmm_status(layout_, sandbox.id()).state;
  if (state == priv::VmmState::exited)
    return answer(fail(Code::conflict, "the VMM of {} has ended and is not forgotten yet", sandbox.id()));
  if (state != priv::VmmState::none) return answer_started(priv::open_vmm(layout_, sandbox));
  for (const Fd& fd : descriptors)
    if (auto checked = require_listening(fd); !checked) return answer(std::unexpected(checked.error()));
  auto wanted = launch_of(call, std::move(descriptors));
  if (!wanted) return answer(std::unexpected(wanted.error()));
  priv::launch_vmm(layout_, pool_, cgroups_, *std::move(wanted), answer_started);
}

Result<priv::VmmLaunch> Verbs::launch_of(const Call& call, std::vector<Fd> descriptors) const {
  const auto number = [&](LaunchValue value) { return static_cast<std::uint32_t>(call.values[value]); };
  const bool kvm = call.values[launch_accelerator] == static_cast<std::uint64_t>(Accelerator::kvm);
  priv::VmmLaunch launch{.sandbox = *call.sandbox,
                         .machine = {.vcpus = number(launch_vcpus),
                                     .memory_mib = number(launch_memory_mib),
                                     .accelerator = kvm ? vmm::Accelerator::kvm : vmm::Accelerator::tcg,
                                     .tsc_khz = number(launch_tsc_khz),
                                     .disk_limits = {.mib_per_s = number(launch_disk_mib_per_s),
                                                     .operations_per_s = number(launch_disk_iops)},
                                     .incoming = call.values[launch_restore] != 0,
                                     .zero_free_pages = call.values[launch_zero_free_pages] != 0},
                         .qmp = std::move(descriptors[0]),
                         .channel = std::move(descriptors[1]),
                         .bundle = bundle_,
                         .may_miss = settings_.may_miss};
  for (const LaunchValue disk : {launch_second_disk, launch_third_disk})
    if (call.source) {
      SPACE_TRY(launch.disks.emplace_back(),
                priv::open_snapshot_disk(pool_, *call.source, call.values[disk]));
    }
  if (!launch.machine.incoming) return launch;
  SPACE_TRY(auto point, priv::find_restore_point(pool_, *call.sandbox, launch.machine.memory_mib));
  launch.memory = std::move(point.memory);
  launch.bundle = std::move(point.bundle);
  return launch;
}

}  // namespace space::noded
