#include "guest/root_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"

namespace space::guest {

namespace {

constexpr const char* disk = "/dev/vda";
constexpr const char* new_root = "/newroot";
constexpr Millis disk_wait{10'000};
// Of the kernel's fs/ext4/ext4.h, which is not exported.
constexpr unsigned long ext4_resize = _IOW('f', 16, std::uint64_t);

struct Mount {
  const char* type;
  const char* target;
  unsigned long flags;
  const char* options;
};

Result<void> mount_one(const Mount& m) {
  if (::mkdir(m.target, 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("make {}", m.target));
  if (::mount(m.type, m.target, m.type, m.flags, m.options) != 0 && errno != EBUSY)
    return fail_errno(errno, fmt::format("mount {}", m.target));
  return {};
}

Result<void> mount_all(std::initializer_list<Mount> mounts) {
  for (const Mount& m : mounts) SPACE_CHECK(mount_one(m));
  return {};
}

Result<void> wait_for_disk() {
  const Deadline deadline = Deadline::after(disk_wait);
  while (::access(disk, F_OK) != 0) {
    if (deadline.passed())
      return fail(Code::deadline, "{} did not appear within {} ms", disk, disk_wait.count());
    std::this_thread::sleep_for(Millis(5));
  }
  return {};
}

// A sandbox's disk may be larger than its template's. Not growing is no reason not to start.
Result<void> grow_to_device() {
  std::uint64_t device_bytes = 0;
  {
    SPACE_TRY(const Fd device, open_fd(disk, O_RDONLY | O_CLOEXEC));
    if (::ioctl(device.get(), BLKGETSIZE64, &device_bytes) != 0) return fail_errno(errno, "size of the disk");
  }
  SPACE_TRY(const Fd root, open_fd(new_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs status{};
  if (::fstatfs(root.get(), &status) != 0) return fail_errno(errno, "stat the file system");
  const std::uint64_t blocks = device_bytes / static_cast<std::uint64_t>(status.f_bsize);
  if (::ioctl(root.get(), ext4_resize, &blocks) != 0) return fail_errno(errno, "grow the file system");
  return {};
}

// The modules and the image of this program are in memory that the sandbox can use.
void free_initramfs() {
  if (DIR* folder = ::opendir("/modules")) {
    while (const dirent* entry = ::readdir(folder)) ::unlinkat(::dirfd(folder), entry->d_name, 0);
    ::closedir(folder);
  }
  ::unlink("/init");
}

Result<void> become_root() {
  for (const char* folder : {"/dev", "/proc", "/sys"}) {
    const std::string target = std::string(new_root) + folder;
    if (::mkdir(target.c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("make {}", target));
    if (::mount(folder, target.c_str(), nullptr, MS_MOVE, nullptr) != 0)
      return fail_errno(errno, fmt::format("move {}", folder));
  }
  if (::chdir(new_root) != 0) return fail_errno(errno, "enter the disk");
  if (::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0) return fail_errno(errno, "move the disk to /");
  if (::chroot(".") != 0 || ::chdir("/") != 0) return fail_errno(errno, "change to the disk");
  return {};
}

}  // namespace

Result<void> mount_early() {
  return mount_all({{"devtmpfs", "/dev", MS_NOSUID, "mode=0755"},
                    {"proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr},
                    {"sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr}});
}

Result<void> switch_to_disk() {
  SPACE_CHECK(wait_for_disk());
  if (::mkdir(new_root, 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, "make the mount point of the disk");
  if (::mount(disk, new_root, "ext4", MS_NOATIME, nullptr) != 0) return fail_errno(errno, "mount the disk");
  if (const auto grown = grow_to_device(); !grown)
    log::warn("file system not grown", {log::Field(grown.error())});
  free_initramfs();
  return become_root();
}

Result<void> mount_late() {
  SPACE_CHECK(mount_all({{"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
                         {"tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777"},
                         {"tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755"},
                         {"cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr}}));
  ::mkdir("/run/lock", 01777);
  ::chmod("/run/lock", 01777);
  // devtmpfs makes devices only; shells need these for process substitution and redirections.
  struct Link {
    const char* target;
    const char* path;
  };
  for (const Link& link : {Link{"/proc/self/fd", "/dev/fd"}, Link{"fd/0", "/dev/stdin"},
                           Link{"fd/1", "/dev/stdout"}, Link{"fd/2", "/dev/stderr"}})
    if (::symlink(link.target, link.path) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("make {}", link.path));
  return {};
}

}  // namespace space::guest
