#include "noded/verbs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/ids.h"
#include "base/log.h"
#include "noded/inventory.h"
#include "priv/bundle.h"
#include "priv/disk.h"
#include "priv/folder.h"
#include "priv/isolation.h"
#include "priv/process.h"
#include "priv/slot.h"
#include "priv/template.h"
#include "priv/vmm.h"

namespace space::noded {
namespace {

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

vmm::DiskLimits disk_limits_of(const Call& call) {
  return {.mib_per_s = static_cast<std::uint32_t>(call.values[launch_disk_mib_per_s]),
          .operations_per_s = static_cast<std::uint32_t>(call.values[launch_disk_iops])};
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

}  // namespace

Verbs::Verbs(priv::Layout layout, priv::Pool pool, priv::Cgroups cgroups, std::string bundle,
             Settings settings)
    : layout_(std::move(layout)),
      pool_(std::move(pool)),
      cgroups_(std::move(cgroups)),
      bundle_(std::move(bundle)),
      settings_(std::move(settings)),
      uids_(vm_uid_first, vm_uid_last, random_uid()) {}

Result<Verbs> Verbs::open(priv::Layout layout, Settings settings) {
  SPACE_TRY(auto cgroups, priv::Cgroups::find(layout.run));
  SPACE_TRY(auto pool, priv::Pool::open(layout, settings.pool_mib_max));
  SPACE_CHECK(priv::remove_half_made_slots(layout));
  SPACE_CHECK(priv::remove_half_made_vmms(layout, cgroups));
  SPACE_TRY(std::string bundle, priv::prepare_bundle(layout, settings.vmm_program));
  SPACE_TRY(const auto vmms, priv::names_in(layout.vmms()));
  if (vmms.empty()) SPACE_CHECK(priv::remove_other_bundles(layout, bundle));
  Verbs verbs(std::move(layout), std::move(pool), std::move(cgroups), std::move(bundle), std::move(settings));
  SPACE_TRY(const auto sandboxes, priv::names_in(verbs.pool_.sandboxes()));
  for (const std::string& id : sandboxes) verbs.learn_uid(id);
  return verbs;
}

Result<void> Verbs::prepare(const Call& call) {
  if (call.verb != Verb::disk_create || uid_of_.contains(call.sandbox->id())) return {};
  const auto uid = uids_.take(priv::uid_has_process);
  if (!uid) return fail(Code::exhausted, "every uid for sandboxes is in use");
  uid_of_[call.sandbox->id()] = *uid;
  return {};
}

void Verbs::settle(const Call& call) {
  if (call.verb != Verb::disk_create && call.verb != Verb::disk_remove) return;
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
    case Verb::slot_create:
      return done(priv::create_slot(layout_, *call.sandbox, call.values[0]));
    case Verb::slot_remove:
      SPACE_CHECK(require_no_vmm(*call.sandbox));
      return done(priv::remove_slot(layout_, *call.sandbox));
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
    case Verb::snapshot_finish:
    case Verb::snapshot_open:
    case Verb::snapshot_remove:
    case Verb::disk_restore:
      return fail(Code::unavailable, "this node makes no snapshots");
    case Verb::template_import:
    case Verb::vmm_launch:
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

Result<Answer> Verbs::open_vmm(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(auto vmm, priv::open_vmm(layout_, sandbox));
  return answer_of(std::move(vmm));
}

Result<Answer> Verbs::open_memory(const priv::SandboxPermit& sandbox) const {
  SPACE_TRY(auto memory, priv::open_vmm_memory(layout_, sandbox));
  Answer answer;
  for (Fd* fd : {&memory.mem, &memory.maps, &memory.pagemap}) answer.descriptors.push_back(std::move(*fd));
  return answer;
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
  const bool kvm = call.values[launch_accelerator] == static_cast<std::uint64_t>(Accelerator::kvm);
  priv::launch_vmm(layout_, pool_, cgroups_,
                   {.sandbox = sandbox,
                    .machine = {.vcpus = static_cast<std::uint32_t>(call.values[launch_vcpus]),
                                .memory_mib = static_cast<std::uint32_t>(call.values[launch_memory_mib]),
                                .accelerator = kvm ? vmm::Accelerator::kvm : vmm::Accelerator::tcg,
                                .tsc_khz = static_cast<std::uint32_t>(call.values[launch_tsc_khz]),
                                .disk_limits = disk_limits_of(call)},
                    .qmp = std::move(descriptors[0]),
                    .channel = std::move(descriptors[1]),
                    .bundle = bundle_,
                    .may_miss = settings_.may_miss},
                   answer_started);
}

}  // namespace space::noded
