#include "priv/disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "priv/folder.h"
#include "priv/subvolume.h"

namespace space::priv {
namespace {

constexpr std::uint64_t mib_bytes = 1 << 20;

Result<void> adapt_clone(int sandboxes, const std::string& name, std::uint64_t mib, uid_t uid) {
  SPACE_TRY(const Fd disk, open_beneath(sandboxes, name + "/disk.raw", O_RDWR));
  struct stat status{};
  if (::fstat(disk.get(), &status) != 0) return fail_errno(errno, "stat the disk");
  const auto size = static_cast<off_t>(mib * mib_bytes);
  if (status.st_size > size)
    return fail(Code::invalid_argument, "the template's disk has {} MiB, {} were asked for",
                static_cast<std::uint64_t>(status.st_size) / mib_bytes, mib);
  if (::ftruncate(disk.get(), size) != 0) return fail_errno(errno, "grow the disk");
  if (::fchown(disk.get(), uid, uid) != 0) return fail_errno(errno, "give the disk to its uid");
  return {};
}

Result<void> clone_template(const Pool& pool, const std::string& name, const std::string& digest) {
  SPACE_TRY(const Fd source, open_beneath(pool.templates(), digest, O_RDONLY | O_DIRECTORY));
  SPACE_CHECK(pool.require_room());
  SPACE_CHECK(delete_subvolume(pool.sandboxes(), name));
  return snapshot_subvolume(source.get(), pool.sandboxes(), name);
}

}  // namespace

Result<Disk> find_disk(const Pool& pool, const std::string& id) {
  struct stat status{};
  const std::string path = id + "/disk.raw";
  if (::fstatat(pool.sandboxes(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, "find the disk");
  return Disk{status.st_uid, static_cast<std::uint64_t>(status.st_size) / mib_bytes};
}

Result<void> create_disk(const Pool& pool, const SandboxPermit& sandbox, const TemplatePermit& source,
                         std::uint64_t mib, uid_t uid) {
  const std::string& id = sandbox.id();
  const std::string unfinished = half_made(id);
  SPACE_CHECK(clone_template(pool, unfinished, source.digest()));
  if (auto adapted = adapt_clone(pool.sandboxes(), unfinished, mib, uid); !adapted) {
    (void)delete_subvolume(pool.sandboxes(), unfinished);  // else the next start removes it
    return explained(adapted.error());
  }
  if (::renameat2(pool.sandboxes(), unfinished.c_str(), pool.sandboxes(), id.c_str(), RENAME_NOREPLACE) != 0)
    return fail_errno(errno, "name the disk");
  return {};
}

Result<void> remove_disk(const Pool& pool, const SandboxPermit& sandbox) {
  return delete_subvolume(pool.sandboxes(), sandbox.id());
}

Result<Fd> open_disk_file(const Pool& pool, const SandboxPermit& sandbox, const char* name, int flags) {
  return open_beneath(pool.sandboxes(), sandbox.id() + "/" + name, flags);
}

Result<Fd> clone_without_name(const Pool& pool, const SandboxPermit& sandbox, const Fd& source) {
  SPACE_TRY(Fd copy, open_beneath(pool.sandboxes(), sandbox.id(), O_TMPFILE | O_RDWR, 0600));
  if (::ioctl(copy.get(), FICLONE, source.get()) != 0) return fail_errno(errno, "clone a disk");
  return copy;
}

}  // namespace space::priv
