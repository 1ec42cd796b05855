// launch_vmm: the supervisor's whole life.
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/bytes.h"
#include "priv/disk.h"
#include "priv/jail.h"
#include "priv/slot.h"
#include "priv/vmm.h"

namespace space::priv {
namespace {

constexpr std::uint64_t mib_bytes = 1 << 20;
constexpr std::size_t log_bytes_max = 64 << 10;
constexpr std::size_t failure_bytes_max = 512;
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
  Fd program, qmp, channel, tap, disk_file, memory, kernel, initramfs, kvm;
};

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<Fd> open_program(const std::string& path) {
  SPACE_TRY(Fd program, open_fd(path, O_RDONLY));
  struct stat status{};
  if (::fstat(program.get(), &status) != 0) return fail_errno(errno, path);
  if (!S_ISREG(status.st_mode) || status.st_uid != 0 || (status.st_mode & 022) != 0)
    return fail(Code::permission_denied, "{} must be a program that only root can write", path);
  return program;
}

Result<Materials> gather(const Layout& layout, const Pool& pool, VmmLaunch& launch) {
  Materials out;
  if (auto disk = find_disk(pool, launch.id); disk)
    out.disk = *disk;
  else
    return wrap(disk.error(), "the sandbox has no disk");
  if (!slot_exists(layout, launch.id)) return fail(Code::not_found, "the sandbox has no network slot");
  SPACE_TRY(out.program, open_program(launch.program));
  SPACE_TRY(out.tap, open_tap(layout, launch.id));
  SPACE_TRY(out.disk_file, open_disk_file(pool, launch.id, "disk.raw", O_RDWR));
  SPACE_TRY(out.kernel, open_disk_file(pool, launch.id, "vmlinuz", O_RDONLY));
  SPACE_TRY(out.initramfs, open_disk_file(pool, launch.id, "initramfs.img", O_RDONLY));
  SPACE_TRY(out.memory, pool.open_zero_memory(launch.machine.memory_mib));
  if (launch.machine.accelerator == vmm::Accelerator::kvm) {
    SPACE_TRY(out.kvm, open_fd("/dev/kvm", O_RDWR));
  }
  out.qmp = std::move(launch.qmp);
  out.channel = std::move(launch.channel);
  return out;
}

CgroupLimits limits_for(const vmm::MachineSpec& machine) {
  const bool tcg = machine.accelerator == vmm::Accelerator::tcg;
  return {.memory_bytes = (machine.memory_mib + (tcg ? overhead_mib_tcg : overhead_mib_kvm)) * mib_bytes,
          .pids = threads_beside_vcpus + machine.vcpus,
          .cpu_percent = machine.vcpus * std::uint64_t{100} + cpu_percent_for_devices};
}

// Gives each descriptor the number that the command line names; everything else closes at exec.
Result<void> place_descriptors(const Materials& materials, const Fd& output, vmm::InheritedFds& numbers) {
  struct {
    const Fd* fd;
    int* number;
  } const wanted[] = {{&materials.qmp, &numbers.qmp},
                      {&materials.channel, &numbers.channel},
                      {&materials.tap, &numbers.tap},
                      {&materials.disk_file, &numbers.disk},
                      {&materials.memory, &numbers.memory_base},
                      {&materials.kernel, &numbers.kernel},
                      {&materials.initramfs, &numbers.initramfs},
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
  if (::close_range(static_cast<unsigned>(next), ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    return fail_errno(errno, "mark descriptors");
  return {};
}

// Moved out of the way first, so that placing one cannot close another.
Result<void> lift(Fd& fd) {
  if (!fd) return {};
  const int lifted = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, safe_number);
  if (lifted < 0) return fail_errno(errno, "move a descriptor");
  fd.reset(lifted);
  return {};
}

Result<void> exec_program(const Fd& program, const vmm::MachineSpec& machine) {
  std::vector<std::string> words = vmm::command_line(machine);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  char locale[] = "LC_ALL=C";
  char* environment[] = {locale, nullptr};
  ::execveat(program.get(), "", arguments.data(), environment, AT_EMPTY_PATH);
  return fail_errno(errno, "exec");
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
  Result<void> fork_vmm(const Materials& materials, Pipe& go, Pipe& failure);
  [[noreturn]] void run_child(Materials& materials, Pipe& go, Pipe& failure);
  Result<void> become_vmm(Materials& materials, Pipe& go, Pipe& failure);
  Result<void> await_exec(Pipe& failure);
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

Result<void> Supervisor::become_vmm(Materials& materials, Pipe& go, Pipe& failure) {
  // Nothing runs before the pid is on record; and nothing at all when the supervisor went before that.
  char ready = 0;
  go.write.reset();
  if (::read(go.read.get(), &ready, 1) != 1) return fail(Code::internal, "the supervisor ended");
  for (Fd* fd : {&materials.program, &materials.qmp, &materials.channel, &materials.tap, &materials.disk_file,
                 &materials.memory, &materials.kernel, &materials.initramfs, &materials.kvm, &output_.write,
                 &failure.write})
    SPACE_CHECK(lift(*fd));
  const JailSpec jail{.cgroups = &cgroups_,
                      .id = launch_.id,
                      .uid = materials.disk.uid,
                      .processes_max = threads_beside_vcpus + launch_.machine.vcpus,
                      .file_bytes_max = (materials.disk.mib + file_mib_beyond_disk) * mib_bytes};
  SPACE_CHECK(place_descriptors(materials, output_.write, launch_.machine.fds));
  SPACE_CHECK(enter_jail(jail));
  return exec_program(materials.program, launch_.machine);
}

void Supervisor::run_child(Materials& materials, Pipe& go, Pipe& failure) {
  const auto failed = become_vmm(materials, go, failure);
  const std::string_view why = failed ? "exec returned" : std::string_view(failed.error().message);
  (void)!::write(failure.write.get(), why.data(), std::min(why.size(), failure_bytes_max));
  ::_exit(127);
}

// Reads until exec closes the pipe, or the reason why there was none.
Result<void> Supervisor::await_exec(Pipe& failure) {
  failure.write.reset();
  std::array<char, failure_bytes_max> text{};
  ssize_t got = 0;
  do got = ::read(failure.read.get(), text.data(), text.size());
  while (got < 0 && errno == EINTR);
  if (got == 0) return {};
  return fail(Code::internal, "{}",
              std::string_view(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
}

Result<VmmHandle> Supervisor::start() {
  SPACE_CHECK(leave_noded());
  SPACE_TRY(Materials materials, gather(layout_, pool_, launch_));
  SPACE_TRY(lock_, begin_vmm_record(layout_, launch_.id));
  recorded_ = true;
  SPACE_TRY(log_, create_vmm_log(layout_, launch_.id));
  SPACE_CHECK(cgroups_.remove(launch_.id));
  SPACE_CHECK(cgroups_.create(launch_.id, limits_for(launch_.machine)));
  SPACE_TRY(output_, make_pipe());
  if (::fcntl(output_.read.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno(errno, "set up the output");
  SPACE_TRY(Pipe go, make_pipe());
  SPACE_TRY(Pipe failure, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "fork");
  if (pid == 0) run_child(materials, go, failure);
  vmm_.pid = pid;
  output_.write.reset();
  SPACE_TRY(vmm_, process_id(pid));
  SPACE_CHECK(record_vmm_process(layout_, launch_.id, vmm_));
  if (::write(go.write.get(), "", 1) != 1) return fail_errno(errno, "release the VMM");
  SPACE_CHECK(await_exec(failure));
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
  (void)cgroups_.remove(launch_.id);
  (void)remove_vmm_record(layout_, launch_.id);
}

Result<void> Supervisor::shrink() {
  SPACE_CHECK(detach_standard_streams());
  close_all_except({lock_.get(), log_.get(), output_.read.get(), pidfd_.get()});
  return keep_capabilities({CAP_KILL});
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
  VmmExit exit{.known = true, .out_of_memory = cgroups_.out_of_memory(launch_.id)};
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
  (void)cgroups_.kill(launch_.id);
  (void)record_vmm_exit(layout_, launch_.id, exit);
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
