#include "priv/pool.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "priv/folder.h"
#include "priv/loop_device.h"
#include "priv/mountinfo.h"
#include "priv/process.h"
#include "priv/subvolume.h"

namespace space::priv {
namespace {

constexpr std::uint64_t mib = 1 << 20;

Result<struct statfs> space_of(int fd) {
  struct statfs status{};
  if (::fstatfs(fd, &status) != 0) return fail_errno(errno, "statfs");
  return status;
}

// Made under another name first: a pool.img is always a whole file system.
Result<void> make_image(const Layout& layout, std::uint64_t mib_max) {
  const std::string image = layout.pool_image();
  if (::access(image.c_str(), F_OK) == 0) return {};
  const std::string unfinished = image + ".new";
  {
    SPACE_TRY(const Fd file, open_fd(unfinished, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    SPACE_TRY(const auto disk, space_of(file.get()));
    const auto free_mib =
        static_cast<std::uint64_t>(disk.f_bavail) * static_cast<std::uint64_t>(disk.f_bsize) / mib;
    SPACE_TRY(const std::uint64_t size_mib, choose_pool_mib(free_mib, mib_max));
    if (::ftruncate(file.get(), static_cast<off_t>(size_mib * mib)) != 0)
      return fail_errno(errno, "size the pool file");
    // One copy of the metadata: the file system below is what guards against a bad disk.
    SPACE_CHECK(run_program({"/sbin/mkfs.btrfs", "--quiet", "--nodiscard", "--metadata", "single", "--label",
                             "space-pool", unfinished}));
    if (::fsync(file.get()) != 0) return fail_errno(errno, "fsync the pool file");
  }
  if (::rename(unfinished.c_str(), image.c_str()) != 0) return fail_errno(errno, "rename the pool file");
  return {};
}

Result<void> mount_image(const Layout& layout) {
  SPACE_TRY(const auto mounts, mounts_of_this_process());
  if (const Mount* mounted = mounted_at(mounts, layout.pool())) {
    if (mounted->type == "btrfs") return {};
    return fail(Code::conflict, "{} is a mount of type {}, not the pool", layout.pool(), mounted->type);
  }
  SPACE_TRY(const LoopDevice loop, attach_loop(layout.pool_image()));
  constexpr unsigned long flags = MS_NOATIME | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  // Snapshots of fragmented memory are metadata: some of it is set aside before disks have taken all there
  // is.
  constexpr const char* options = "metadata_ratio=16";
  if (::mount(loop.path.c_str(), layout.pool().c_str(), "btrfs", flags, options) != 0)
    return fail_errno(errno, "mount the pool");
  return {};
}

Result<Fd> open_part(int root, const std::string& name) {
  if (::mkdirat(root, name.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "make folder " + name + " of the pool");
  return open_beneath(root, name, O_RDONLY | O_DIRECTORY);
}

Result<void> remove_half_made_in(int folder) {
  SPACE_TRY(const auto names, half_made_in(folder));
  for (const std::string& name : names) SPACE_CHECK(delete_subvolume(folder, name));
  return {};
}

}  // namespace

Result<std::uint64_t> choose_pool_mib(std::uint64_t free_mib, std::uint64_t mib_max) {
  const std::uint64_t size_mib = std::min(mib_max, free_mib / 10 * 9);
  if (size_mib < pool_mib_min)
    return fail(Code::exhausted, "the pool needs {} MiB, {} MiB are free", pool_mib_min, free_mib);
  return size_mib;
}

std::uint64_t pool_reserve_bytes(std::uint64_t total_bytes) {
  return std::min<std::uint64_t>(total_bytes / 20, 1024 * mib);
}

Result<Pool> Pool::open(const Layout& layout, std::uint64_t mib_max) {
  SPACE_CHECK(make_image(layout, mib_max));
  SPACE_TRY(const auto mounts, mounts_of_this_process());
  if (mounted_at(mounts, layout.pool()) == nullptr) SPACE_CHECK(make_folder(layout.pool(), 0700));
  SPACE_CHECK(mount_image(layout));
  Pool pool;
  SPACE_TRY(pool.root_, open_fd(layout.pool(), O_RDONLY | O_DIRECTORY));
  SPACE_TRY(const auto status, space_of(pool.root_.get()));
  if (status.f_type != BTRFS_SUPER_MAGIC) return fail(Code::internal, "{} is not btrfs", layout.pool());
  if (::fchmod(pool.root_.get(), 0700) != 0) return fail_errno(errno, "set the mode of the pool");
  SPACE_TRY(pool.templates_, open_part(pool.root_.get(), "templates"));
  SPACE_TRY(pool.sandboxes_, open_part(pool.root_.get(), "sandboxes"));
  SPACE_TRY(pool.snapshots_, open_part(pool.root_.get(), "snapshots"));
  SPACE_TRY(pool.zero_, open_part(pool.root_.get(), "zero"));
  SPACE_CHECK(pool.remove_half_made());
  return pool;
}

Result<void> Pool::remove_half_made() const {
  for (const int folder : {templates(), sandboxes()}) SPACE_CHECK(remove_half_made_in(folder));
  SPACE_TRY(const auto names, names_in(snapshots()));
  for (const std::string& name : names) {
    SPACE_TRY(const Fd folder, open_beneath(snapshots(), name, O_RDONLY | O_DIRECTORY));
    SPACE_CHECK(remove_half_made_in(folder.get()));
    ::unlinkat(snapshots(), name.c_str(), AT_REMOVEDIR);  // stays while there is a finished one
  }
  return {};
}

Result<Pool::Space> Pool::space() const {
  SPACE_TRY(const auto status, space_of(root_.get()));
  const auto block = static_cast<std::uint64_t>(status.f_bsize);
  return Space{.free_bytes = status.f_bavail * block, .total_bytes = status.f_blocks * block};
}

Result<void> Pool::require_room() const {
  SPACE_TRY(const Space now, space());
  if (now.free_bytes > pool_reserve_bytes(now.total_bytes)) return {};
  return fail(Code::exhausted, "the disk pool is full ({} of {} MiB are free). Kill sandboxes to make room",
              now.free_bytes / mib, now.total_bytes / mib);
}

Result<Fd> Pool::open_zero_memory(std::uint64_t size_mib) const {
  const std::string name = fmt::format("{}.raw", size_mib);
  auto existing = open_beneath(zero_.get(), name, O_RDONLY);
  if (existing || existing.error().code != Code::not_found) return existing;
  // Unnamed until it has its size; when two make it at once, the first name stays.
  SPACE_TRY(const Fd file, open_beneath(zero_.get(), ".", O_RDWR | O_TMPFILE, 0444));
  if (::ftruncate(file.get(), static_cast<off_t>(size_mib * mib)) != 0 || ::fchmod(file.get(), 0444) != 0)
    return fail_errno(errno, "size the memory file");
  const std::string unnamed = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, unnamed.c_str(), zero_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0 &&
      errno != EEXIST)
    return fail_errno(errno, "name the memory file");
  return open_beneath(zero_.get(), name, O_RDONLY);
}

Result<void> unmount_pool(const Layout& layout) {
  SPACE_TRY(const auto mounts, mounts_of_this_process());
  const Mount* mounted = mounted_at(mounts, layout.pool());
  if (mounted == nullptr) return {};
  if (::umount2(layout.pool().c_str(), UMOUNT_NOFOLLOW) != 0) return fail_errno(errno, "unmount the pool");
  return await_detached(mounted->source, layout.pool_image());
}

}  // namespace space::priv
