// launch_vmm: the supervisor's whole life.
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/bytes.h"
#include "priv/bundle.h"
#include "priv/disk.h"
#include "priv/folder.h"
#include "priv/jail.h"
#include "priv/jail_talk.h"
#include "priv/slot.h"
#include "priv/vmm.h"

namespace space::priv {
namespace {

constexpr std::uint64_t mib_bytes = 1 << 20;
constexpr std::size_t log_bytes_max = 64 << 10;
// What QEMU itself needs beside the guest's memory: under TCG mostly translated code.
constexpr std::uint64_t overhead_mib_tcg = 384, overhead_mib_kvm = 96;
constexpr std::uint64_t threads_beside_vcpus = 64;
constexpr std::uint64_t cpu_percent_for_devices = 50;
constexpr std::uint64_t file_mib_beyond_disk = 64;
constexpr int first_inherited = 3;
constexpr int safe_number = 64;  // above every number a descriptor is moved to

// Everything the VMM gets, opened by root before any privilege goes.
struct Materials {
  Disk disk{};
  std::uint64_t slot = 0;
  Fd program, qmp, channel, tap, disk_file, second_disk, third_disk, kvm;
  JailRoot root;
};

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<JailRoot> open_root(const Layout& layout, const Pool& pool, VmmLaunch& launch, Fd& program) {
  const auto bundle = open_fd(layout.bundle(launch.bundle), O_PATH | O_DIRECTORY);
  if (!bundle) return wrap(bundle.error(), "the QEMU that saved the snapshot is gone from this node");
  SPACE_TRY(program, open_beneath(bundle->get(), bundle_program, O_PATH));
  if (!launch.memory) {
    SPACE_TRY(launch.memory, pool.open_zero_memory(launch.machine.memory_mib));
  }
  SPACE_TRY(const Fd kernel, open_disk_file(pool, launch.sandbox, "vmlinuz", O_RDONLY));
  SPACE_TRY(const Fd initramfs, open_disk_file(pool, launch.sandbox, "initramfs.img", O_RDONLY));
  return make_jail_root(*bundle, launch.memory, kernel, initramfs);
}

Result<Materials> gather(const Layout& layout, const Pool& pool, VmmLaunch& launch) {
  Materials out;
  if (auto disk = find_disk(pool, launch.sandbox.id()); disk)
    out.disk = *disk;
  else
    return wrap(disk.error(), "the sandbox has no disk");
  SPACE_TRY(out.slot, slot_number(layout, launch.sandbox.id()));
  SPACE_TRY(out.tap, open_tap(layout, launch.sandbox));
  SPACE_TRY(out.disk_file, open_disk_file(pool, launch.sandbox, "disk.raw", O_RDWR));
  SPACE_TRY(out.root, open_root(layout, pool, launch, out.program));
  if (launch.machine.accelerator == vmm::Accelerator::kvm) {
    SPACE_TRY(out.kvm, open_fd("/dev/kvm", O_RDWR));
  }
  out.qmp = std::move(launch.qmp);
  out.channel = std::move(launch.channel);
  if (launch.disks.size() == 2) {
    SPACE_TRY(out.second_disk, clone_without_name(pool, launch.sandbox, launch.disks[0]));
    SPACE_TRY(out.third_disk, clone_without_name(pool, launch.sandbox, launch.disks[1]));
  }
  return out;
}

CgroupLimits limits_for(const vmm::MachineSpec& machine) {
  const bool tcg = machine.accelerator == vmm::Accelerator::tcg;
  return {.memory_bytes = (machine.memory_mib + (tcg ? overhead_mib_tcg : overhead_mib_kvm)) * mib_bytes,
          .pids = threads_beside_vcpus + machine.vcpus,
          .cpu_percent = machine.vcpus * std::uint64_t{100} + cpu_percent_for_devices};
}

// Gives each descriptor the number that the command line names. Returns the number after the last one, which
// is the program's.
Result<int> place_descriptors(const Materials& materials, const Fd& output, vmm::InheritedFds& numbers) {
  struct {
    const Fd* fd;
    int* number;
  } const wanted[] = {{&materials.qmp, &numbers.qmp},
                      {&materials.channel, &numbers.channel},
                      {&materials.tap, &numbers.tap},
                      {&materials.disk_file, &numbers.disk},
                      {&materials.second_disk, &numbers.second_disk},
                      {&materials.third_disk, &numbers.third_disk},
                      {&materials.kvm, &numbers.kvm}};
  int next = first_inherited;
  for (const auto& [fd, number] : wanted) {
    if (!*fd) continue;
    if (::dup2(fd->get(), next) < 0) return fail_errno(errno, "place a descriptor");
    *number = next++;
  }
  SPACE_TRY(const Fd null, open_fd("/dev/null", O_RDONLY));
  if (::dup2(null.get(), 0) < 0 || ::dup2(output.get(), 1) < 0 || ::dup2(output.get(), 2) < 0)
    return fail_errno(errno, "place the standard streams");
  if (::dup3(materials.program.get(), next, O_CLOEXEC) < 0) return fail_errno(errno, "place the program");
  return next;
}

// Moved out of the way first, so that placing one cannot close another.
Result<void> lift(Fd& fd) {
  if (!fd) return {};
  const int lifted = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, safe_number);
  if (lifted < 0) return fail_errno(errno, "move a descriptor");
  fd.reset(lifted);
  return {};
}

class Supervisor {
 public:
  Supervisor(const Layout& layout, const Pool& pool, const Cgroups& cgroups, VmmLaunch launch)
      : layout_(layout), pool_(pool), cgroups_(cgroups), launch_(std::move(launch)) {}

  Result<VmmHandle> start();
  void abandon();
  void watch();

 private:
  Result<void> leave_noded();
  [[noreturn]] void run_child(Materials& materials, Fd parent);
  Result<void> become_vmm(Materials& materials, Fd& parent);
  Result<void> shrink();
  bool keep_output();
  VmmExit reap();

  const Layout& layout_;
  const Pool& pool_;
  const Cgroups& cgroups_;
  VmmLaunch launch_;
  bool recorded_ = false;
  Fd lock_, log_, pidfd_;
  Pipe output_;
  std::size_t logged_ = 0;
  ProcessId vmm_;
};

Result<void> Supervisor::leave_noded() {
  ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  ::prctl(PR_SET_NAME, "space-vmm", 0, 0, 0);
  ::setsid();  // fails only when it leads a session already
  return cgroups_.enter_supervisors();
}

// Does not return on success.
Result<void> Supervisor::become_vmm(Materials& materials, Fd& parent) {
  for (Fd* fd :
       {&materials.program, &materials.qmp, &materials.channel, &materials.tap, &materials.disk_file,
        &materials.second_disk, &materials.third_disk, &materials.kvm, &materials.root.bundle,
        &materials.root.memory, &materials.root.kernel, &materials.root.initramfs, &output_.write, &parent})
    SPACE_CHECK(lift(*fd));
  SPACE_TRY(const int program, place_descriptors(materials, output_.write, launch_.machine.fds));
  const JailSpec jail{.cgroups = &cgroups_,
                      .id = launch_.sandbox.id(),
                      .uid = materials.disk.uid,
                      .processes_max = threads_beside_vcpus + launch_.machine.vcpus,
                      .file_bytes_max = (materials.disk.mib + file_mib_beyond_disk) * mib_bytes,
                      .root = &materials.root,
                      .scratch = layout_.slots(),
                      .inherited_end = program,
                      .parent = parent.get()};
  return std::unexpected(enter_jail_and_exec(jail, launch_.may_miss, vmm::command_line(launch_.machine)));
}

void Supervisor::run_child(Materials& materials, Fd parent) {
  if (const auto failed = become_vmm(materials, parent); !failed) tell_failure(parent.get(), failed.error());
  ::_exit(127);
}

Result<VmmHandle> Supervisor::start() {
  const std::string& id = launch_.sandbox.id();
  SPACE_CHECK(leave_noded());
  SPACE_TRY(Materials materials, gather(layout_, pool_, launch_));
  SPACE_TRY(lock_, begin_vmm_record(layout_, id));
  recorded_ = true;
  SPACE_CHECK(record_vmm_launch(layout_, id,
                                {.bundle = launch_.bundle,
                                 .memory_mib = launch_.machine.memory_mib,
                                 .restored = launch_.machine.incoming,
                                 .slot = materials.slot}));
  SPACE_TRY(log_, create_vmm_log(layout_, id));
  SPACE_CHECK(cgroups_.remove(id));
  SPACE_CHECK(cgroups_.create(id, limits_for(launch_.machine)));
  SPACE_TRY(output_, make_pipe());
  if (::fcntl(output_.read.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno(errno, "set up the output");
  int talk[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) != 0)
    return fail_errno(errno, "make a socket pair");
  Fd mine(talk[0]), childs(talk[1]);
  SPACE_TRY(const pid_t pid, fork_into_jail());
  if (pid == 0) {
    mine.reset();
    run_child(materials, std::move(childs));
  }
  childs.reset();
  output_.write.reset();
  vmm_.pid = pid;
  SPACE_TRY(vmm_, process_id(pid));
  // Nothing of it runs before it is on record; and nothing at all when this process goes before that.
  SPACE_CHECK(record_vmm_process(layout_, id, vmm_));
  SPACE_TRY(const Worn worn, oversee_jail(mine.get(), pid, materials.disk.uid));
  SPACE_CHECK(record_vmm_jail(layout_, id, worn));
  SPACE_TRY(pidfd_, open_pidfd(vmm_));
  SPACE_TRY(Fd handle, open_pidfd(vmm_));
  return VmmHandle{std::move(handle), vmm_};
}

// After a failed start: nothing may be left of it.
void Supervisor::abandon() {
  if (vmm_.pid > 0) {
    ::kill(vmm_.pid, SIGKILL);
    ::waitpid(vmm_.pid, nullptr, 0);
  }
  if (!recorded_) return;
  (void)cgroups_.remove(launch_.sandbox.id());
  (void)remove_vmm_record(layout_, launch_.sandbox.id());
}

Result<void> Supervisor::shrink() {
  SPACE_CHECK(detach_standard_streams());
  close_all_except({lock_.get(), log_.get(), output_.read.get(), pidfd_.get()});
  return keep_capabilities(std::uint64_t{1} << CAP_KILL);
}

// False when nothing is there now. What goes beyond the bound is read and dropped: a full pipe stops QEMU.
bool Supervisor::keep_output() {
  std::array<std::byte, 4096> buffer;
  const ssize_t got = ::read(output_.read.get(), buffer.data(), buffer.size());
  if (got == 0) output_.read.reset();
  if (got <= 0) return got < 0 && errno == EINTR;
  const std::size_t kept = std::min(static_cast<std::size_t>(got), log_bytes_max - logged_);
  logged_ += kept;
  (void)write_all(log_.get(), std::span(buffer).first(kept));  // a full /run loses the log, nothing else
  return true;
}

VmmExit Supervisor::reap() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(vmm_.pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
  VmmExit exit{.known = true, .out_of_memory = cgroups_.out_of_memory(launch_.sandbox.id())};
  (info.si_code == CLD_EXITED ? exit.status : exit.signal) = info.si_status;
  return exit;
}

void Supervisor::watch() {
  (void)shrink();  // holding more than it needs is no reason to lose a running VM
  while (true) {
    pollfd ready[] = {{pidfd_.get(), POLLIN, 0}, {output_.read.get(), POLLIN, 0}};  // -1 is passed over
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) break;
    while (output_.read && keep_output()) {
    }
    if (ready[0].revents != 0) break;
  }
  const VmmExit exit = reap();
  (void)cgroups_.kill(launch_.sandbox.id());
  (void)record_vmm_exit(layout_, launch_.sandbox.id(), exit);
}

}  // namespace

void launch_vmm(const Layout& layout, const Pool& pool, const Cgroups& cgroups, VmmLaunch launch,
                const std::function<void(Result<VmmHandle>)>& started) {
  Supervisor supervisor(layout, pool, cgroups, std::move(launch));
  auto handle = supervisor.start();
  const bool runs = handle.has_value();
  if (!runs) supervisor.abandon();
  started(std::move(handle));
  if (runs) supervisor.watch();
}

}  // namespace space::priv
