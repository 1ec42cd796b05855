#include "sandboxd/machine.h"

#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "sandboxd/race.h"

namespace space {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

constexpr Millis undo_limit = 10s;
constexpr Millis qmp_limit = 15s;
constexpr Millis end_poll = 10ms;
constexpr Millis end_notice = 500ms;
// Between two attempts to go on with a full disk.
constexpr Millis disk_poll = 1s;
// The guest gives itself 1 s to freeze; before it, it flushes.
constexpr Millis quiesce_limit = 5s;
// Its daemon has just answered.
constexpr Millis hold_limit = 1s;
constexpr Millis thaw_limit = 5s;
constexpr Millis disk_thaw_limit = 2s;
// How long a guest may hold its disk frozen by itself.
constexpr Millis disk_hold_min = 100ms;
constexpr Millis disk_hold_max = 10s;
constexpr std::size_t version_bytes_max = 32;
constexpr std::size_t failed_bytes_max = 300;
// The node manager's reaper writes the cause down a moment after the process is gone.
constexpr Millis cause_limit = 1500ms;
constexpr Millis cause_poll = 20ms;

Task<Result<void>> drop(Task<Result<JsonObject>> task) {
  SPACE_CO_CHECK(co_await std::move(task));
  co_return Result<void>();
}

Task<Result<void>> done() {
  co_return Result<void>();
}

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

}  // namespace

Result<vmm::SnapshotManifest> read_manifest(const Fd& manifest) {
  std::string text(vmm::snapshot_manifest_limit_bytes + 1, '\0');
  const ssize_t n = ::pread(manifest.get(), text.data(), text.size(), 0);
  if (n < 0) return fail_errno(errno, "read the snapshot's manifest");
  text.resize(static_cast<std::size_t>(n));
  return vmm::parse_snapshot_manifest(text);
}

vmm::Accelerator to_vmm(MachineAccelerator accelerator) {
  return accelerator == MachineAccelerator::kvm ? vmm::Accelerator::kvm : vmm::Accelerator::tcg;
}

Result<void> check_restorable_here(const Machine::Host& host, const Fd& manifest,
                                   MachineAccelerator accelerator) {
  SPACE_TRY(const vmm::SnapshotManifest parsed, read_manifest(manifest));
  return check_restorable_here(host, parsed, accelerator);
}

Result<void> check_restorable_here(const Machine::Host& host, const vmm::SnapshotManifest& manifest,
                                   MachineAccelerator accelerator) {
  vmm::NodeMachine machine;
  machine.accelerator = to_vmm(accelerator);
  machine.cpu = host.cpu_model(accelerator);
  return vmm::check_restorable(manifest, machine);
}

Machine::Machine(Host host, std::string id, ChannelLink::Hooks hooks)
    : host_(std::move(host)),
      id_(std::move(id)),
      changed_(hooks.changed),
      channel_(std::make_shared<ChannelLink>(host_.executor, channel_path(folder()), std::move(hooks),
                                             ChannelLink::Pace())),
      qmp_connected_(host_.executor),
      interrupted_(host_.executor) {}

Task<Result<void>> Machine::apply(Effect effect, Deadline deadline) {
  auto task = std::visit(
      Overloaded{
          [&](const effect::CreateDisk& disk) {
            return host_.noded.disk_create(id_, disk.template_digest, disk.disk_mib, deadline);
          },
          [&](const effect::RestoreDisk& from) {
            return host_.noded.disk_restore(id_, from.source, from.number, deadline);
          },
          [&](const effect::CreateSlot&) { return host_.noded.slot_create(id_, deadline); },
          [&](const effect::OpenGateway&) {
            open_gateway();
            return done();
          },
          [&](const effect::AwaitGateway&) { return while_alive(await_gateway(deadline)); },
          [&](const effect::OpenSockets&) { return open_sockets(); },
          [&](const effect::LaunchVmm& vmm) { return launch(vmm, deadline); },
          [&](const effect::ConnectQmp&) { return while_alive(connect_qmp(deadline)); },
          [&](const effect::LoadState& from) { return while_alive(load_state(from, deadline)); },
          [&](const effect::Continue&) { return while_alive(cont_vcpus(deadline)); },
          [&](const effect::ConnectChannel&) { return while_alive(channel_->connect(deadline)); },
          [&](const effect::AttachChannel& attach) {
            return while_alive(channel_->attach(deadline, attach.earlier));
          },
          [&](const effect::SetIdentity&) { return while_alive(set_identity(deadline)); },
          [&](const effect::InitGuest&) { return while_alive(init_guest(deadline)); },
          [&](const effect::WakeGuest&) { return while_alive(wake(std::exchange(wake_, {}), deadline)); },
      },
      effect);
  if (interruption_) co_return std::unexpected(*interruption_);
  co_return co_await std::move(task);
}

Task<Result<void>> Machine::undo(Undo undo) {
  const Deadline deadline = Deadline::after(undo_limit);
  switch (undo) {
    case Undo::none:
      co_return Result<void>();
    case Undo::close_channel:
      channel_->close();
      co_return Result<void>();
    case Undo::end_vmm:
      co_return co_await end_vmm();
    case Undo::remove_sockets:
      co_return remove_vm_sockets(folder());
    case Undo::close_gateway:
      co_return co_await host_.netd.detach(id_);
    case Undo::forget_gateway:
      co_return co_await host_.netd.forget(id_);
    case Undo::remove_slot:
      co_return co_await host_.noded.slot_remove(id_, deadline);
    case Undo::remove_disk:
      co_return co_await host_.noded.disk_remove(id_, deadline);
  }
  __builtin_unreachable();
}

struct Machine::Opening {
  explicit Opening(const Executor& executor) : ended(executor) {}
  std::optional<Result<void>> outcome;
  Event ended;
};

// Beside what else a start does: it takes longer than a verb, and nothing needs it before the guest runs.
void Machine::open_gateway() {
  opening_ = std::make_shared<Opening>(host_.executor);
  spawn(host_.executor, "open gateway", tell_gateway(opening_));
}

Task<void> Machine::tell_gateway(std::shared_ptr<Opening> opening) {
  const auto self = shared_from_this();
  opening->outcome = co_await host_.netd.attach(id_, egress_, Deadline::after(undo_limit));
  opening->ended.notify_all();
}

Task<Result<void>> Machine::await_gateway(Deadline deadline) {
  const auto self = shared_from_this();
  const auto opening = opening_;
  while (opening && !opening->outcome)
    if (!co_await opening->ended.wait(deadline) && !opening->outcome)
      co_return fail(Code::unavailable, "the network gateway does not answer");
  if (opening) co_return *opening->outcome;
  co_return Result<void>();
}

NetworkState Machine::network() const {
  if (pid_ == 0) return {};
  NetworkState state = host_.netd.state(id_);
  if (state.state == "ok" && !repair_.empty()) return {"repaired", repair_};
  return state;
}

Task<void> Machine::end(std::string cause) {
  const auto self = shared_from_this();
  end_cause_ = std::move(cause);
  const auto killed = co_await host_.noded.vmm_kill(id_, Deadline::after(undo_limit));
  if (!killed) log::error("VMM not ended", {{"sandbox", id_}, log::Field(killed.error())});
}

Task<Result<void>> Machine::open_sockets() {
  SPACE_CO_TRY(sockets_, open_vm_sockets(folder()));
  co_return Result<void>();
}

Task<Result<void>> Machine::launch(effect::LaunchVmm spec, Deadline deadline) {
  accelerator_ = spec.accelerator;
  SPACE_CO_TRY(Vmm vmm, co_await host_.noded.vmm_launch(id_, spec, host_.tsc_khz, sockets_.qmp.get(),
                                                        sockets_.channel.get(), deadline));
  // From here on only QEMU listens: when it is gone, connecting is refused instead of waiting for ever.
  sockets_ = {};
  watch(std::move(vmm));
  co_return Result<void>();
}

Task<Result<void>> Machine::connect_qmp(Deadline deadline) {
  SPACE_CO_TRY(StreamPtr stream, co_await connect_unix(qmp_path(folder()), deadline));
  const std::weak_ptr<Machine> weak = weak_from_this();
  auto on_event = [weak](vmm::QmpEvent event) {
    if (const auto self = weak.lock()) self->on_event(event);
  };
  SPACE_CO_TRY(qmp_, co_await vmm::Qmp::open(std::move(stream), std::move(on_event), deadline));
  co_return Result<void>();
}

Task<void> Machine::reconnect_qmp() {
  const auto self = shared_from_this();
  if (const auto connected = co_await ensure_qmp(Deadline::after(qmp_limit)); !connected && !dead_)
    log::warn("QMP is not reachable", {{"sandbox", id_}, log::Field(connected.error())});
  co_await wait_for_disk();  // it may have stopped while nobody listened
}

void Machine::on_event(vmm::QmpEvent event) {
  if (event == vmm::QmpEvent::guest_panicked) guest_panicked_ = true;
  if (event == vmm::QmpEvent::guest_reset) guest_reset_ = true;
  if (event != vmm::QmpEvent::block_io_error) return;
  disk_refused_ = true;
  if (!waiting_for_disk_) spawn(host_.executor, "wait for disk", wait_for_disk());
}

// QEMU stops a VM whose write found no space and repeats the write when told to go on. Any other error of the
// disk is the guest's to handle, and the VM runs.
Task<void> Machine::wait_for_disk() {
  const auto self = shared_from_this();
  if (std::exchange(waiting_for_disk_, true)) co_return;
  disk_refused_ = true;
  while ((std::exchange(disk_refused_, false) || out_of_disk_) && !dead_ && qmp_ && !qmp_->closed()) {
    const auto status = co_await qmp_->query_status(Deadline::after(qmp_limit));
    const bool stopped = status && status->state == "io-error";
    if (out_of_disk_ != stopped) {
      out_of_disk_ = stopped;
      log::warn(stopped ? "VM stopped: the pool is full" : "VM goes on", {{"sandbox", id_}});
      changed_();
    }
    if (!stopped) continue;
    // Who asked for a new sandbox is told at once instead of waiting for room.
    if (!kept_) interrupt({Code::exhausted, "the disk pool is full. Kill sandboxes to make room"});
    co_await sleep_for(disk_poll);
    if (dead_ || !qmp_) break;
    (void)co_await qmp_->cont(Deadline::after(qmp_limit));
    co_await sleep_for(disk_poll);  // the write is on its way: done, or stopped again
  }
  waiting_for_disk_ = false;
}

Task<Result<void>> Machine::set_identity(Deadline deadline) {
  SPACE_CO_CHECK(co_await channel_->control("identity", {{"sandbox_id", id_}, {"hostname", id_}}, deadline));
  co_return Result<void>();
}

Task<Result<void>> Machine::init_guest(Deadline deadline) {
  SPACE_CO_CHECK(co_await channel_->control("init", to_json(std::exchange(guest_init_, {})), deadline));
  co_return Result<void>();
}

Task<Result<void>> Machine::load_state(effect::LoadState from, Deadline deadline) {
  SPACE_CO_TRY(SnapshotFiles files, co_await host_.noded.snapshot_open(from.source, from.number, deadline));
  SPACE_CO_CHECK(check_restorable_here(host_, files.manifest, accelerator_));
  stands_still_ = true;
  co_return co_await qmp_->load_device_state(std::move(files.state), deadline);
}

struct Machine::Connecting {
  explicit Connecting(Machine& of) : machine(of) { machine.connecting_qmp_ = true; }
  ~Connecting() {
    machine.connecting_qmp_ = false;
    machine.qmp_connected_.notify_all();
  }
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;
  Machine& machine;
};

// QEMU takes one client: a second connection would wait for the first to go.
Task<Result<void>> Machine::ensure_qmp(Deadline deadline) {
  const auto self = shared_from_this();
  while (connecting_qmp_)
    if (!co_await qmp_connected_.wait(deadline)) co_return fail(Code::deadline, "QMP is not reachable");
  if (qmp_ && !qmp_->closed()) co_return Result<void>();
  if (dead_) co_return fail(Code::unavailable, "its VMM has ended");
  const Connecting connecting(*this);  // also where the wait is cancelled
  qmp_.reset();
  co_return co_await while_alive(connect_qmp(deadline));
}

Task<bool> Machine::quiesce(bool sync) {
  const auto answer = co_await channel_->control("quiesce", {{"sync", sync}}, Deadline::after(quiesce_limit));
  if (!answer || !bool_member(*answer, "frozen").value_or(false).value_or(false)) co_return false;
  if (co_await channel_->hold(Deadline::after(hold_limit))) co_return true;
  channel_->release();
  co_return false;
}

Task<Result<void>> Machine::stop_vcpus(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await ensure_qmp(deadline));
  SPACE_CO_CHECK(co_await qmp_->stop(deadline));
  stands_still_ = true;
  channel_->rest(true);
  co_return Result<void>();
}

Task<Result<void>> Machine::cont_vcpus(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await ensure_qmp(deadline));
  SPACE_CO_CHECK(co_await qmp_->cont(deadline));
  stands_still_ = false;
  channel_->release();
  channel_->rest(false);
  co_return Result<void>();
}

Task<Result<void>> Machine::ensure_running(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await ensure_qmp(deadline));
  SPACE_CO_TRY(const vmm::VmStatus status, co_await qmp_->query_status(deadline));
  // Any other reason to stand still has an owner of its own (a full disk).
  if (status.state != "paused") co_return Result<void>();
  co_return co_await cont_vcpus(deadline);
}

Task<Result<void>> Machine::wake(GuestWake wake, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_TRY(const JsonObject answer,
               co_await channel_->control("wake", to_json(std::move(wake)), deadline));
  if (const auto version = text_member(answer, "daemon_version"); version && *version)
    daemon_version_ = (*version)->substr(0, version_bytes_max);
  if (const auto failed = answer.find("failed"); failed != answer.end()) {
    const std::string steps = to_text(failed->value()).substr(0, failed_bytes_max);
    log::warn("a guest's wake was not whole", {{"sandbox", id_}, {"failed", steps}});
    // A twin of another guest's generator must not run; what else failed the guest lives with.
    if (steps.find("\"entropy\"") != std::string::npos)
      co_return fail(Code::unavailable, "the guest did not take new entropy");
  }
  co_return Result<void>();
}

Task<void> Machine::thaw() {
  const auto self = shared_from_this();
  channel_->release();
  const auto thawed = co_await channel_->control("thaw", {}, Deadline::after(thaw_limit));
  if (!thawed) log::warn("the guest was not thawed", {{"sandbox", id_}, log::Field(thawed.error())});
}

Task<bool> Machine::freeze_disk(Deadline deadline) {
  const auto self = shared_from_this();
  // The guest gives up freezing after half of the limit, so that it is held for at least the other half.
  const std::int64_t limit_ms = std::clamp(deadline.left() * 3 / 2, disk_hold_min, disk_hold_max).count();
  const auto answer = co_await channel_->control("freeze_disk", {{"limit_ms", limit_ms}}, deadline);
  if (answer) co_return bool_member(*answer, "frozen").value_or(false).value_or(false);
  log::warn("the guest's disk was not frozen", {{"sandbox", id_}, log::Field(answer.error())});
  (void)co_await thaw_disk();  // it may have heard the call all the same
  co_return false;
}

Task<bool> Machine::thaw_disk() {
  const auto self = shared_from_this();
  const auto answer = co_await channel_->control("thaw_disk", {}, Deadline::after(disk_thaw_limit));
  if (answer) co_return bool_member(*answer, "held").value_or(false).value_or(false);
  log::warn("the guest's disk was not thawed", {{"sandbox", id_}, log::Field(answer.error())});
  co_return false;
}

Task<Result<JsonObject>> Machine::diff(std::size_t limit, Millis time, Deadline deadline) {
  const auto self = shared_from_this();
  JsonObject answer;
  const auto ask = [&]() -> Task<Result<void>> {
    SPACE_CO_TRY(answer,
                 co_await channel_->control("diff", {{"limit", limit}, {"time_ms", time.count()}}, deadline));
    co_return Result<void>();
  };
  SPACE_CO_CHECK(co_await while_alive(ask()));
  co_return answer;
}

Task<Result<void>> Machine::shut_down(Deadline deadline) {
  const auto self = shared_from_this();
  (void)co_await channel_->control("shutdown", {}, deadline);
  while (!dead_ && !interruption_)
    if (!co_await interrupted_.wait(deadline)) co_return fail(Code::deadline, "the guest did not shut down");
  if (interruption_ && !dead_) co_return std::unexpected(*interruption_);
  co_return Result<void>();
}

Task<Result<void>> Machine::warm(bool everything, Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(
      co_await while_alive(drop(channel_->control("warm", {{"everything", everything}}, deadline))));
  co_return Result<void>();
}

Task<Result<std::string>> Machine::save_device_state(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_CHECK(co_await ensure_qmp(deadline));
  co_return co_await qmp_->save_device_state(deadline);
}

Task<Result<void>> Machine::reattach(Deadline deadline) {
  const auto self = shared_from_this();
  if (channel_->session()) co_return Result<void>();
  co_return co_await while_alive(channel_->attached(deadline));
}

void Machine::rehook(ChannelLink::Hooks hooks) {
  changed_ = hooks.changed;
  channel_->rehook(std::move(hooks));
}

Task<Result<void>> Machine::adopt() {
  SPACE_CO_TRY(Vmm vmm, co_await host_.noded.vmm_open(id_, Deadline::after(undo_limit)));
  watch(std::move(vmm));
  spawn(host_.executor, "QMP reconnect", reconnect_qmp());
  open_gateway();
  keep();
  co_return Result<void>();
}

void Machine::interrupt(Error reason) {
  interruption_ = std::move(reason);
  interrupted_.notify_all();
}

void Machine::watch(Vmm vmm) {
  pid_ = vmm.pid;
  launched_ = true;
  spawn(host_.executor, "VMM watch", watch_death(std::move(vmm.pidfd)));
}

Task<void> Machine::watch_death(Fd pidfd) {
  const auto self = shared_from_this();
  asio::posix::stream_descriptor watched(host_.executor, pidfd.release());
  co_await watched.async_wait(asio::posix::stream_descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
  dead_ = true;
  pid_ = 0;
  interrupted_.notify_all();
  changed_();
}

Task<Result<void>> Machine::while_alive(Task<Result<void>> task) {
  std::optional<Result<void>> outcome;
  if (!dead_) outcome = co_await race(std::move(task), interrupted_);
  // A VMM that ends takes its sockets along, which may be noticed before its death is.
  const Deadline soon = Deadline::after(end_notice);
  while (outcome && !*outcome && outcome->error().code == Code::unavailable && !dead_ && !interruption_)
    if (!co_await interrupted_.wait(soon)) break;
  if (interruption_) co_return std::unexpected(*interruption_);
  if (dead_) co_return fail(Code::unavailable, "{}", co_await cause_of_death());
  co_return *std::move(outcome);
}

Task<Result<std::string>> Machine::console_text(Deadline deadline) {
  const auto self = shared_from_this();
  if (dead_ || !qmp_ || qmp_->closed()) co_return fail(Code::unavailable, "the VMM cannot be asked");
  co_return co_await qmp_->console_text(deadline);
}

Task<std::string> Machine::cause_of_death() {
  if (!end_cause_.empty()) co_return end_cause_;
  const Deadline deadline = Deadline::after(cause_limit);
  while (true) {
    const auto exit = co_await host_.noded.vmm_exit(id_, deadline);
    if (exit && guest_panicked_) co_return "the guest's kernel panicked";
    if (exit && guest_reset_ && exit->known && exit->signal == 0 && exit->status == 0)
      co_return "the guest's kernel panicked or rebooted; a sandbox does not boot twice";
    if (exit) co_return describe(*exit);
    if (deadline.passed() || (exit.error().code != Code::not_found && exit.error().code != Code::unavailable))
      co_return "its VMM ended, the cause is unknown: " + exit.error().message;
    co_await sleep_for(cause_poll);
  }
}

Task<Result<void>> Machine::end_vmm() {
  const Deadline deadline = Deadline::after(undo_limit);
  if (auto killed = co_await host_.noded.vmm_kill(id_, deadline);
      !killed && killed.error().code != Code::not_found)
    co_return killed;
  while (true) {
    auto forgotten = co_await host_.noded.vmm_forget(id_, deadline);
    if (forgotten || forgotten.error().code == Code::not_found) co_return Result<void>();
    const bool ending =
        forgotten.error().code == Code::conflict || forgotten.error().code == Code::unavailable;
    if (!ending || deadline.passed()) co_return forgotten;
    co_await sleep_for(end_poll);
  }
}

}  // namespace space
