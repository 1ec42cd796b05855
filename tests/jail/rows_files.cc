// Files: of the host, of the kernel, of its own root, and making any.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

long open_path(const char* path, int flags, int mode = 0) {
  return call(SYS_openat, AT_FDCWD, address_of(path), flags, mode);
}
// Text as a template argument.
template <std::size_t size>
struct Path {
  consteval Path(const char (&path)[size]) { std::copy_n(path, size, text); }
  char text[size];
};
template <Path path, int flags = O_RDONLY>
const char* open_file() {
  return outcome(open_path(path.text, flags));
}
template <Path path>
const char* stat_file() {
  struct stat status{};
  return outcome(call(SYS_newfstatat, AT_FDCWD, address_of(path.text), address_of(&status), 0));
}
template <long number, Path path, long... more>
const char* with_path() {
  return outcome(call(number, address_of(path.text), more...));
}

const char* truncate_shared_memory() {
  return outcome(open_path("/memory", O_WRONLY | O_TRUNC));
}
const char* map_memory_shared() {
  const long fd = open_path("/memory", O_RDONLY);
  if (fd < 0) return outcome(fd);
  return outcome(call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}
const char* protect_shared_memory() {
  const long fd = open_path("/memory", O_RDONLY);
  if (fd < 0) return outcome(fd);
  const long at = call(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
  return at < 0 && at > -4096 ? outcome(at) : outcome(call(SYS_mprotect, at, 4096, PROT_READ | PROT_WRITE));
}
const char* map_memory_as_code() {
  const long fd = open_path("/memory", O_RDONLY);
  if (fd < 0) return outcome(fd);
  return outcome(call(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
}
const char* punch_shared_memory() {
  const long fd = open_path("/memory", O_RDONLY);
  return fd < 0 ? outcome(fd) : outcome(call(SYS_fallocate, fd, 3 /* punch, keep size */, 0, 4096));
}
// An empty one, of root's: read by anybody, unless Landlock is on.
const char* read_canary() {
  return outcome(open_path("/landlock-canary", O_RDONLY));
}

// Through every folder that can be listed; in each it tries to make a file.
struct Walk {
  int folders = 0, made = 0;
  long last = -ENOENT;
};
void walk(const char* path, int depth, Walk& walked) {
  char inside[1024];
  std::snprintf(inside, sizeof inside, "%s/probe-was-here", path);
  const long made = open_path(inside, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (made >= 0) {
    ++walked.made;
    call(SYS_close, made);
    call(SYS_unlink, address_of(inside));
  } else {
    walked.last = made;
  }
  const long folder = open_path(path, O_RDONLY | O_DIRECTORY);
  if (folder < 0 || ++walked.folders > 200) return;
  alignas(8) char entries[8192];
  long got;
  while ((got = call(SYS_getdents64, folder, address_of(entries), sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == 0) continue;
      std::snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
      walk(inside, depth - 1, walked);
    }
  }
  call(SYS_close, folder);
}
const char* create_anywhere() {
  Walk walked;
  walk("/", 6, walked);
  if (walked.made > 0) return text_with("made-", walked.made);
  return outcome(walked.last);
}
// The root folder, unless Landlock lets no one list it.
const char* list_root() {
  const long folder = open_path("/", O_RDONLY | O_DIRECTORY);
  if (folder < 0) return outcome(folder);
  alignas(8) char entries[4096];
  return outcome(call(SYS_getdents64, folder, address_of(entries), sizeof entries));
}
// ".." of the root is the root; of the disk nothing.
const char* above_root() {
  return outcome(open_path("/../../../../etc/passwd", O_RDONLY));
}
const char* beside_disk() {
  return outcome(call(SYS_openat, given.disk, address_of("../"), O_RDONLY | O_DIRECTORY, 0));
}
const char* disk_by_proc() {
  return outcome(open_path("/proc/self/fd/0", O_RDONLY));
}
const char* enter_disk() {
  return outcome(call(SYS_fchdir, given.disk));
}
const char* disk_name() {
  return outcome(call(SYS_readlinkat, given.disk, address_of(""), 0, 0));
}
const char* link_disk() {
  return outcome(call(SYS_linkat, given.disk, address_of(""), AT_FDCWD, address_of("/disk"), AT_EMPTY_PATH));
}
const char* disk_write() {
  const char byte = 0;
  return outcome(call(SYS_pwrite64, given.disk, address_of(&byte), 1, 0));
}
const char* disk_mode() {
  return outcome(call(SYS_fchmod, given.disk, 0777));
}
const char* disk_owner() {
  return outcome(call(SYS_fchown, given.disk, -1, -1));
}
const char* disk_attribute() {
  return outcome(call(SYS_fsetxattr, given.disk, address_of("user.probe"), address_of("x"), 1, 0));
}
const char* disk_lease() {
  return outcome(call(SYS_fcntl, given.disk, 1024 /* F_SETLEASE */, 2 /* F_UNLCK */));
}

constexpr Row rows[] = {
    {"open_passwd", open_file<"/etc/passwd">},
    {"open_shadow", open_file<"/etc/shadow">},
    {"stat_passwd", stat_file<"/etc/passwd">},
    {"open_proc_mem", open_file<"/proc/self/mem", O_RDWR>},
    {"open_proc_first", open_file<"/proc/1/environ">},
    {"open_proc_maps", open_file<"/proc/self/maps">},
    {"list_processes", open_file<"/proc", O_RDONLY | O_DIRECTORY>},
    {"reopen_by_proc", disk_by_proc},
    {"open_sys", open_file<"/sys/kernel", O_RDONLY | O_DIRECTORY>},
    {"open_cgroup", open_file<"/sys/fs/cgroup", O_RDONLY | O_DIRECTORY>},
    {"open_run", open_file<"/run", O_RDONLY | O_DIRECTORY>},
    {"open_tmp", open_file<"/tmp", O_RDONLY | O_DIRECTORY>},
    {"open_dev_kvm", open_file<"/dev/kvm", O_RDWR>},
    {"open_dev_mem", open_file<"/dev/mem">},
    {"open_dev_tun", open_file<"/dev/net/tun", O_RDWR>},
    {"open_dev_null", open_file<"/dev/null">},
    {"open_dev_tty", open_file<"/dev/tty", O_RDWR>},
    {"above_root", above_root},
    {"beside_disk", beside_disk},
    {"list_root", list_root},
    {"create_anywhere", create_anywhere},
    {"create_in_root", open_file<"/probe-was-here", O_WRONLY | O_CREAT | O_EXCL>},
    {"temporary_in_root", open_file<"/", O_TMPFILE | O_RDWR>},
    {"write_program", open_file<"/vmm", O_WRONLY>},
    {"read_program", open_file<"/vmm">},
    {"write_memory", open_file<"/memory", O_WRONLY>},
    {"write_kernel", open_file<"/kernel", O_WRONLY>},
    {"write_initramfs", open_file<"/initramfs", O_WRONLY>},
    {"write_firmware", open_file<"/usr/share/seabios/bios-microvm.bin", O_WRONLY>},
    {"read_memory", open_file<"/memory">},
    {"read_kernel", open_file<"/kernel">},
    {"read_canary", read_canary},
    {"truncate_memory", truncate_shared_memory},
    {"map_memory_shared", map_memory_shared},
    {"protect_memory_shared", protect_shared_memory},
    {"map_memory_as_code", map_memory_as_code},
    {"punch_memory", punch_shared_memory},
    {"unlink", with_path<SYS_unlink, "/memory">},
    {"rmdir", with_path<SYS_rmdir, "/usr">},
    {"mkdir", with_path<SYS_mkdir, "/probe-was-here", 0700>},
    {"mknod_device", with_path<SYS_mknod, "/probe-was-here", S_IFCHR | 0600, 0x0101>},
    {"mknod_pipe", with_path<SYS_mknod, "/probe-was-here", S_IFIFO | 0600, 0>},
    {"symlink", [] { return outcome(call(SYS_symlink, address_of("/etc"), address_of("/probe-was-here"))); }},
    {"link", [] { return outcome(call(SYS_link, address_of("/memory"), address_of("/probe-was-here"))); }},
    {"rename",
     [] { return outcome(call(SYS_rename, address_of("/memory"), address_of("/probe-was-here"))); }},
    {"chmod", with_path<SYS_chmod, "/memory", 0666>},
    {"chown", with_path<SYS_chown, "/memory", 0, 0>},
    {"truncate", with_path<SYS_truncate, "/memory", 0>},
    {"setxattr",
     [] {
       return outcome(
           call(SYS_setxattr, address_of("/memory"), address_of("user.probe"), address_of("x"), 1, 0));
     }},
    {"utimes", [] { return outcome(call(SYS_utimensat, AT_FDCWD, address_of("/memory"), 0, 0)); }},
    {"openat2",
     [] {
       const std::uint64_t how[3] = {};
       return outcome(call(SYS_openat2, AT_FDCWD, address_of("/memory"), address_of(how), sizeof how));
     }},
    {"chdir", with_path<SYS_chdir, "/">},
    {"fchdir_disk", enter_disk},
    {"readlink_disk", disk_name},
    {"link_disk", link_disk},
    {"disk_write", disk_write},
    {"disk_chmod", disk_mode},
    {"disk_chown", disk_owner},
    {"disk_setxattr", disk_attribute},
    {"disk_lease", disk_lease},
    {"sync_host", [] { return outcome(call(SYS_sync)); }},
};

}  // namespace

std::span<const Row> file_rows() {
  return rows;
}

}  // namespace space::jail
