#include "priv/mount_tree.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace space::priv {

Result<Fd> detached_mount(const Fd& fd, Runs runs) {
  Fd tree(::open_tree(fd.get(), "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree) return fail_errno(errno, "open_tree");
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (runs == Runs::nothing) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
    return fail_errno(errno, "mount_setattr");
  return tree;
}

Result<void> make_mounts_private() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_errno(errno, "make mounts private");
  return {};
}

Result<void> attach_mount(const Fd& tree, int folder, const char* name) {
  if (::move_mount(tree.get(), "", folder, name, MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return fail_errno(errno, fmt::format("mount {}", name));
  return {};
}

Result<void> become_root(const Fd& tree, const char* scratch) {
  SPACE_CHECK(attach_mount(tree, AT_FDCWD, scratch));
  if (::chdir(scratch) != 0) return fail_errno(errno, "enter the new root");
  // The old root comes to lie over the new one, and goes from there with all that is mounted in it.
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return fail_errno(errno, "pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return fail_errno(errno, "leave the old root");
  if (::chdir("/") != 0) return fail_errno(errno, "enter the root");
  return {};
}

}  // namespace space::priv
