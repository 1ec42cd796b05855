#include "tests/integration/bare_vm.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/ids.h"
#include "base/unix_address.h"
#include "net/channel.h"
#include "vmm/accelerator.h"

namespace space {
namespace {

constexpr uid_t unprivileged_uid =
    265534;  // within the VM range, the last but one: nobody else's on a test machine

Result<Fd> listen_at(const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "socket");
  SPACE_TRY(const UnixAddress address, UnixAddress::of(path));
  if (::bind(fd.get(), address.get(), address.size()) != 0) {
    return fail_errno(errno, path);
  }
  if (::listen(fd.get(), 1) != 0) return fail_errno(errno, path);
  return fd;
}

// Data only, holes stay holes.
Result<void> copy_sparse(int from, int to) {
  struct stat status{};
  if (::fstat(from, &status) != 0) return fail_errno(errno, "disk.raw");
  if (::ftruncate(to, status.st_size) != 0) return fail_errno(errno, "disk.raw");
  for (off_t at = 0; (at = ::lseek(from, at, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(from, at, SEEK_HOLE);
    for (off_t out = at; at < end;) {
      const auto count = ::copy_file_range(from, &at, to, &out, static_cast<std::size_t>(end - at), 0);
      if (count <= 0) return fail_errno(count == 0 ? EIO : errno, "copy disk.raw");
    }
  }
  return errno == ENXIO ? Result<void>() : fail_errno(errno, "disk.raw");
}

int open_tap() {
  const int tap = ::open("/dev/net/tun", O_RDWR);
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  std::strcpy(request.ifr_name, "tap0");
  return tap >= 0 && ::ioctl(tap, TUNSETIFF, &request) == 0 ? tap : -1;
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<BareVm>> BareVm::make(Shape shape) {
  char folder[] = "/tmp/space-bare-vm.XXXXXX";
  if (::mkdtemp(folder) == nullptr) return fail_errno(errno, "mkdtemp");
  std::unique_ptr<BareVm> vm(new BareVm(folder, shape));
  SPACE_TRY(vm->qmp_, listen_at(vm->folder_ + "/qmp.sock"));
  SPACE_TRY(vm->channel_, listen_at(vm->folder_ + "/channel.sock"));
  SPACE_TRY(vm->disk_, open_fd(vm->folder_ + "/disk.raw", O_RDWR | O_CREAT, 0600));
  if (!shape.second_disk.empty()) {
    SPACE_TRY(vm->second_disk_, open_fd(shape.second_disk, O_RDWR));
    SPACE_TRY(vm->third_disk_, open_fd(shape.third_disk, O_RDWR));
  }
  SPACE_TRY(vm->tsc_khz_, vmm::host_tsc_khz());
  return vm;
}

Result<std::unique_ptr<BareVm>> BareVm::prepare(const std::string& template_folder, Shape shape) {
  SPACE_TRY(auto vm, make(shape));
  SPACE_CHECK(vm->open_files(template_folder));
  return vm;
}

Result<std::unique_ptr<BareVm>> BareVm::prepare_restored(const std::string& memory) const {
  SPACE_TRY(auto vm, make(shape_));
  SPACE_TRY(const Fd disk, open_fd(folder_ + "/disk.raw", O_RDONLY));
  SPACE_CHECK(copy_sparse(disk.get(), vm->disk_.get()));
  SPACE_TRY(const Fd from, open_fd(memory, O_RDONLY));
  SPACE_TRY(const Fd to, open_fd(vm->folder_ + "/memory", O_RDWR | O_CREAT, 0444));
  SPACE_CHECK(copy_sparse(from.get(), to.get()));
  SPACE_CHECK(vm->open_memory());
  for (const auto& [own, its] : {std::pair{&vm->kernel_, &kernel_}, {&vm->initramfs_, &initramfs_}}) {
    *own = Fd(::fcntl(its->get(), F_DUPFD_CLOEXEC, 0));
    if (!*own) return fail_errno(errno, "dup");
  }
  vm->incoming_ = true;
  return vm;
}

Result<void> BareVm::open_files(const std::string& template_folder) {
  SPACE_TRY(kernel_, open_fd(template_folder + "/vmlinuz", O_RDONLY));
  SPACE_TRY(initramfs_, open_fd(template_folder + "/initramfs.img", O_RDONLY));
  SPACE_TRY(const Fd original, open_fd(template_folder + "/disk.raw", O_RDONLY));
  SPACE_CHECK(copy_sparse(original.get(), disk_.get()));

  const std::string memory = folder_ + "/memory";
  SPACE_TRY(const Fd zeros, open_fd(memory, O_RDWR | O_CREAT, 0444));
  if (::ftruncate(zeros.get(), off_t{shape_.memory_mib} << 20) != 0) return fail_errno(errno, memory);
  return open_memory();
}

Result<void> BareVm::open_memory() {
  SPACE_TRY(memory_, open_fd(folder_ + "/memory", O_RDONLY));
  return {};
}

BareVm::~BareVm() {
  kill();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<void> BareVm::start() {
  pid_ = ::fork();
  if (pid_ < 0) return fail_errno(errno, "fork");
  if (pid_ == 0) become_qemu();
  return {};
}

void BareVm::become_qemu() {
  if (::unshare(CLONE_NEWNET) != 0) die("unshare");
  const int tap = open_tap();
  if (tap < 0) die("tap");
  if (::setgroups(0, nullptr) != 0 ||
      ::setresgid(unprivileged_uid, unprivileged_uid, unprivileged_uid) != 0 ||
      ::setresuid(unprivileged_uid, unprivileged_uid, unprivileged_uid) != 0) {
    die("setresuid");
  }
  // Unlike the product's: a test that dies leaves nothing. A change of the user would take it back.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const Fd* fd :
       {&qmp_, &channel_, &disk_, &second_disk_, &third_disk_, &memory_, &kernel_, &initramfs_})
    if (*fd) ::fcntl(fd->get(), F_SETFD, 0);

  vmm::MachineSpec spec;
  spec.vcpus = shape_.vcpus;
  spec.memory_mib = shape_.memory_mib;
  spec.tsc_khz = tsc_khz_;
  spec.incoming = incoming_;
  spec.zero_free_pages = shape_.zero_free_pages && !incoming_;
  spec.fds = {.qmp = qmp_.get(), .channel = channel_.get(), .tap = tap, .disk = disk_.get()};
  if (second_disk_) {
    spec.fds.second_disk = second_disk_.get();
    spec.fds.third_disk = third_disk_.get();
  }
  const auto opened = [](const Fd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); };
  spec.files = {opened(memory_), opened(kernel_), opened(initramfs_)};
  std::vector<std::string> words = vmm::command_line(spec);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  die("exec QEMU");
}

Task<Result<std::shared_ptr<H2Session>>> BareVm::attach(Deadline deadline) {
  SPACE_CO_TRY(auto socket, co_await connect_unix(folder_ + "/channel.sock", deadline));
  channel::Sync sync;
  sync.epoch = ++epoch_;
  sync.wall_clock_us = std::chrono::duration_cast<std::chrono::microseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  fill_random(sync.entropy);
  SPACE_CO_TRY(auto stream, co_await channel::attach(std::move(socket), sync, deadline));
  auto session = H2Session::client(std::move(stream));
  spawn(co_await boost::asio::this_coro::executor, "bare channel",
        [](std::shared_ptr<H2Session> running) -> Task<void> { (void)co_await running->run(); }(session));
  co_return session;
}

void BareVm::kill() noexcept {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

Result<int> BareVm::wait(Deadline deadline) {
  while (pid_ > 0) {
    const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
    if (ended < 0) return fail_errno(errno, "waitpid");
    if (ended == pid_)
      pid_ = -1;
    else if (deadline.passed())
      return fail(Code::deadline, "QEMU still runs");
    else
      ::usleep(5000);
  }
  return status_;
}

}  // namespace space
